// The help: which keys there are, and what the words mean.
import type { JSX, RefObject } from "preact";
import { GLOSSARY } from "./glossary.ts";

const KEYS: readonly (readonly [string, string])[] = [
  ["j  k", "next and previous call, or rollout in the list"],
  ["↑ ↓ ← →", "in the forest, as in a tree: line by line, into a call’s children, out to its parent"],
  ["h  l", "the lane to the left, to the right"],
  ["[  ]", "previous and next sibling, or row"],
  ["Enter", "open what is chosen; follow a token"],
  ["p", "play the walk again"],
  ["/", "search"],
  ["Esc", "choose nothing"],
  ["?", "this help"],
];

const SHOWN = Object.entries(GLOSSARY).filter(([word]) => !["unknown_root", "token_in"].includes(word));

export function Help({ dialog }: { readonly dialog: RefObject<HTMLDialogElement | null> }): JSX.Element {
  return (
    <dialog ref={dialog} class="help" aria-label="Help">
      <form method="dialog">
        <button type="submit" class="icon close" aria-label="Close the help">
          ×
        </button>
      </form>
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(/\s+/).map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <h2>Words</h2>
      <dl class="words">
        {SHOWN.map(([word, meaning]) => (
          <div key={word}>
            <dt>{word.replaceAll("_", " ")}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
