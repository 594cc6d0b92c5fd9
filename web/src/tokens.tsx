// A run of tokens: each with its text and id, coloured by log-prob, marked where it trains. Long runs are drawn a
// block at a time as they come into sight, so that 128k tokens open at once. One token can be chosen: by pointer or,
// with the run in focus, by the arrow keys; Enter follows it.
import { Fragment, type JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, decimal, percent } from "./format.ts";
import { Term } from "./term.tsx";
import { useTexts, visibleText, type TextBook } from "./token-texts.ts";

/** `c` carried (not sampled here), `g` generated and no part of a loss here, `t` trained. */
export type TokenKind = "c" | "g" | "t";

export interface TokenRun {
  readonly ids: readonly number[];
  readonly kind: (index: number) => TokenKind;
  /** Null where the token was not sampled here or its log-prob is no number. */
  readonly logprob: (index: number) => number | null;
  readonly weightVersion: (index: number) => string | null;
  /** Labels that stand before a token, such as the call that begins there. */
  readonly marks: ReadonlyMap<number, string>;
}

interface TokensProps {
  readonly run: TokenRun;
  readonly book: TextBook;
  readonly label: string;
  readonly chosen: number | null;
  readonly onChoose: (index: number) => void;
  /** Where a chosen token leads, for Enter and a second click. */
  readonly onFollow?: (index: number) => void;
  /** The text of the link in the note of the chosen token. */
  readonly followLabel?: (index: number) => string | null;
}

/** Tokens drawn together in a long run; a line ends where a block does. */
const BLOCK = 64;
/** A run of at most this many is one block, and its lines are whole. */
const WHOLE = 1024;

function blockSize(run: TokenRun): number {
  return run.ids.length <= WHOLE ? WHOLE : BLOCK;
}

interface DrawnBlock {
  readonly isDrawn: boolean;
  readonly chosen: number | null;
  readonly element: JSX.Element;
}

interface BlockProps extends Pick<TokensProps, "run" | "book" | "label" | "chosen"> {
  readonly block: number;
  readonly drawn: boolean;
}

export function Tokens(props: TokensProps): JSX.Element {
  const { run, label, chosen, onChoose, onFollow } = props;
  const box = useRef<HTMLDivElement>(null);
  const size = blockSize(run);
  const blocks = Math.ceil(run.ids.length / size);
  const seen = useSeenBlocks(box, blocks);
  useLayoutEffect(() => {
    if (chosen === null) return;
    const block = box.current?.children[Math.floor(chosen / size)];
    const token = block?.querySelector(`[data-at="${chosen}"]`) ?? block;
    if (token !== undefined && token !== null && !isOnScreen(token))
      token.scrollIntoView({ block: "center" });
  }, [chosen, seen.has(Math.floor((chosen ?? 0) / size))]);
  const at = (event: Event): number | null => {
    const token = (event.target as HTMLElement).closest<HTMLElement>("[data-at]");
    return token === null ? null : Number(token.dataset["at"]);
  };
  const drawn = useRef<{ run: TokenRun; blocks: Map<number, DrawnBlock> }>({ run, blocks: new Map() });
  if (drawn.current.run !== run) drawn.current = { run, blocks: new Map() };
  /** The same element for as long as the block is the same, so that thousands of them cost nothing. */
  const blockOf = (block: number): JSX.Element => {
    const isDrawn = seen.has(block);
    const own = chosen !== null && Math.floor(chosen / size) === block ? chosen : null;
    const known = drawn.current.blocks.get(block);
    if (known !== undefined && known.isDrawn === isDrawn && known.chosen === own) return known.element;
    const element = (
      <Block
        key={block}
        run={run}
        book={props.book}
        label={label}
        block={block}
        drawn={isDrawn}
        chosen={own}
      />
    );
    drawn.current.blocks.set(block, { isDrawn, chosen: own, element });
    return element;
  };
  const move = (to: number): void => onChoose(Math.max(0, Math.min(run.ids.length - 1, to)));
  return (
    <div class="token-run">
      <div class="token-note" aria-live="polite">
        {chosen === null || chosen >= run.ids.length ? (
          <span class="dim">Choose a token to see its log-prob and where it leads.</span>
        ) : (
          <TokenNote {...props} index={chosen} />
        )}
      </div>
      <div
        ref={box}
        class="tokens"
        role="listbox"
        tabIndex={0}
        aria-label={`${label}: ${count(run.ids.length)} tokens`}
        aria-activedescendant={chosen === null ? undefined : `${idOf(label)}-${chosen}`}
        onClick={(event) => {
          const index = at(event);
          if (index !== null) onChoose(index);
        }}
        onDblClick={(event) => {
          const index = at(event);
          if (index !== null) onFollow?.(index);
        }}
        onKeyDown={(event) => {
          const now = chosen ?? -1;
          if (event.key === "ArrowRight") move(now + 1);
          else if (event.key === "ArrowLeft") move(now - 1);
          else if (event.key === "Home") move(0);
          else if (event.key === "End") move(run.ids.length - 1);
          else if (event.key === "Enter" && chosen !== null) onFollow?.(chosen);
          else return;
          event.preventDefault();
        }}
      >
        {Array.from({ length: blocks }, (_none, block) => blockOf(block))}
      </div>
    </div>
  );
}

function isOnScreen(element: Element): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 60 && bottom <= innerHeight - 20;
}

function idOf(label: string): string {
  return `token-${label.replaceAll(/\W+/g, "-")}`;
}

/** Blocks that are or were near the screen; the first is there from the start. */
function useSeenBlocks(box: { current: HTMLDivElement | null }, blocks: number): ReadonlySet<number> {
  const [seen, setSeen] = useState<ReadonlySet<number>>(new Set([0]));
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        const near = new Set<number>();
        const far = new Set<number>();
        for (const entry of entries) {
          const block = Number((entry.target as HTMLElement).dataset["block"]);
          (entry.isIntersecting ? near : far).add(block);
          // Its place stays as high as it was.
          if (!entry.isIntersecting && entry.boundingClientRect.height > 0) {
            (entry.target as HTMLElement).style.minHeight = `${entry.boundingClientRect.height}px`;
          }
        }
        setSeen((before) => new Set([...[...before].filter((block) => !far.has(block)), ...near]));
      },
      { rootMargin: "200px 0px" },
    );
    for (const child of element.children) observer.observe(child);
    return () => observer.disconnect();
  }, [blocks]);
  return seen;
}

function Block({ run, book, label, chosen, block, drawn }: BlockProps): JSX.Element {
  const from = block * blockSize(run);
  const to = Math.min(run.ids.length, from + blockSize(run));
  const ids = useMemo(() => (drawn ? run.ids.slice(from, to) : []), [run, drawn, from, to]);
  useTexts(book, ids);
  if (!drawn) return <div class="token-block waiting" data-block={block} role="presentation" />;
  return (
    <div class="token-block" data-block={block} role="group" aria-label={`tokens ${from} to ${to - 1}`}>
      {ids.map((id, offset) => {
        const index = from + offset;
        const text = book.text(id);
        const version = newVersion(run, index);
        return (
          <Fragment key={index}>
            {run.marks.has(index) && (
              <span class="token-mark" role="presentation">
                {run.marks.get(index)}
              </span>
            )}
            {version !== null && (
              <span class="token-mark version" role="presentation">
                weights {version}
              </span>
            )}
            <span
              role="option"
              id={`${idOf(label)}-${index}`}
              data-at={index}
              aria-selected={index === chosen}
              aria-description={tokenWords(run, index)}
              class={`token ${run.kind(index)} ${bucketOf(run.logprob(index))}`}
            >
              <span class={text === null ? "token-text bare" : "token-text"}>
                {text === null ? id : text === "" ? "∅" : visibleText(text)}
              </span>
              <span class="token-id">{text === null ? "" : id}</span>
            </span>
          </Fragment>
        );
      })}
    </div>
  );
}

function newVersion(run: TokenRun, index: number): string | null {
  const version = run.weightVersion(index);
  if (version === null || version === "unknown") return null;
  for (let before = index - 1; before >= 0; before--) {
    const earlier = run.weightVersion(before);
    if (earlier !== null) return earlier === version ? null : version;
    // Versions stand on generated tokens; carried runs between them can be long.
    if (index - before > 4096) return null;
  }
  return version;
}

/** What the colours of a token say, in words. */
function tokenWords(run: TokenRun, index: number): string {
  const logprob = run.logprob(index);
  const kind = { c: "carried", g: "generated, context here", t: "generated, trained" }[run.kind(index)];
  return `token ${index}, ${kind}${logprob === null ? "" : `, log-prob ${decimal(logprob)}`}`;
}

/** The least probability of each step but the last. */
const STEPS = [0.9, 0.7, 0.5, 0.25, 0.1, 0.02];

/** Seven steps from certain to surprising. */
function bucketOf(logprob: number | null): string {
  if (logprob === null) return "";
  const probability = Math.exp(logprob);
  const step = STEPS.findIndex((least) => probability >= least);
  return `lp${step < 0 ? STEPS.length : step}`;
}

function TokenNote({
  run,
  book,
  index,
  followLabel,
  onFollow,
}: TokensProps & { readonly index: number }): JSX.Element {
  const text = book.text(run.ids[index] as number);
  const logprob = run.logprob(index);
  const version = run.weightVersion(index);
  const follow = followLabel?.(index) ?? null;
  return (
    <>
      <span>
        token <b>{count(index)}</b>
      </span>
      <span>
        id <b>{run.ids[index]}</b>
      </span>
      {text !== null && <span class="quoted">{JSON.stringify(text)}</span>}
      {logprob !== null && (
        <span>
          log-prob <b>{decimal(logprob)}</b> ({percent(logprob)})
        </span>
      )}
      {version !== null && <span>weights {version}</span>}
      <span class={`kind ${run.kind(index)}`}>
        {{ c: "carried: mask 0", g: "context here: mask 0", t: "trained: mask 1" }[run.kind(index)]}
      </span>
      {follow !== null && (
        <button type="button" class="link follow" onClick={() => onFollow?.(index)}>
          {follow}
        </button>
      )}
    </>
  );
}

export function TokenLegend({ trained }: { readonly trained: boolean }): JSX.Element {
  return (
    <div class="token-legend">
      <span class="legend-scale">
        <Term of="logprob">log-prob</Term>
        <span>certain</span>
        {[0, 1, 2, 3, 4, 5, 6].map((step) => (
          <i key={step} class={`swatch lp${step}`} />
        ))}
        <span>surprising</span>
      </span>
      <span>
        <i class="swatch c" /> <Term of="carried">carried</Term>
      </span>
      {trained ? (
        <span>
          <i class="swatch t" /> <Term of="trained">trained</Term>
        </span>
      ) : (
        <span>
          <i class="swatch g" /> <Term of="generated">generated</Term>
        </span>
      )}
    </div>
  );
}
