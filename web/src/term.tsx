// A word that explains itself where it stands: hover, tap or focus shows what it means. One note at a time, above
// everything, kept inside the window; Escape puts it away.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { GLOSSARY, type TermKey } from "./glossary.ts";

interface Shown {
  readonly term: TermKey;
  readonly at: DOMRect;
}

let show: (shown: Shown | null) => void = () => undefined;

interface TermProps {
  readonly of: TermKey;
  readonly children: ComponentChildren;
  /** No tab stop of its own: it stands in something that is walked by other keys. */
  readonly inside?: boolean;
}

export function Term({ of: term, children, inside = false }: TermProps): JSX.Element {
  const open = (event: Event): void =>
    show({ term, at: (event.currentTarget as HTMLElement).getBoundingClientRect() });
  return (
    <button
      type="button"
      class="term"
      tabIndex={inside ? -1 : 0}
      aria-describedby="term-note"
      onMouseEnter={open}
      onFocus={open}
      onClick={(event) => {
        event.stopPropagation();
        open(event);
      }}
      onMouseLeave={() => show(null)}
      onBlur={() => show(null)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        show(null);
        event.stopPropagation();
      }}
    >
      {children}
    </button>
  );
}

/** Holds the one note; stands at the end of the page. */
export function TermNote(): JSX.Element {
  const [shown, setShown] = useState<Shown | null>(null);
  const note = useRef<HTMLDivElement>(null);
  useEffect(() => {
    show = setShown;
    const hide = (): void => setShown(null);
    addEventListener("scroll", hide, true);
    return () => removeEventListener("scroll", hide, true);
  }, []);
  useLayoutEffect(() => {
    const box = note.current;
    if (box === null || shown === null) return;
    const { width, height } = box.getBoundingClientRect();
    const left = Math.max(8, Math.min(innerWidth - width - 8, shown.at.left));
    const below = shown.at.bottom + 8 + height < innerHeight;
    box.style.left = `${left}px`;
    box.style.top = `${below ? shown.at.bottom + 8 : shown.at.top - height - 8}px`;
  }, [shown]);
  return (
    <div id="term-note" role="tooltip" ref={note} class={shown === null ? "term-note" : "term-note shown"}>
      {shown === null ? "" : GLOSSARY[shown.term]}
    </div>
  );
}
