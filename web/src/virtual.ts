// Which lines of a long list are on screen: a scroller, lines of one height, and a few more on either side.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

const SPARE = 12;

export interface Window {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

export function useWindow(
  scroller: RefObject<HTMLElement | null>,
  count: number,
  lineHeight: number,
): Window {
  const [at, setAt] = useState<Window>({ from: 0, to: Math.min(count, 60) });
  const measure = (): void => {
    const box = scroller.current;
    if (box === null) return;
    const first = Math.floor(box.scrollTop / lineHeight);
    const lines = Math.ceil((box.clientHeight || innerHeight) / lineHeight);
    // In steps, so that most scroll events change nothing.
    const from = Math.max(0, Math.floor((first - SPARE) / 4) * 4);
    const to = Math.min(count, Math.ceil((first + lines + SPARE) / 4) * 4);
    setAt((before) => (before.from === from && before.to === to ? before : { from, to }));
  };
  useLayoutEffect(measure, [count, lineHeight]);
  useEffect(() => {
    const box = scroller.current;
    if (box === null) return undefined;
    box.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => {
      box.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, [count, lineHeight]);
  return { from: Math.min(at.from, count), to: Math.min(Math.max(at.to, at.from), count) };
}

/** Scrolls only as far as it takes for the line to be seen. */
export function bringIntoView(box: HTMLElement, line: number, lineHeight: number): void {
  const top = line * lineHeight;
  const margin = Math.min(lineHeight * 2, box.clientHeight / 4);
  if (top < box.scrollTop + margin) box.scrollTop = Math.max(0, top - margin);
  else if (top + lineHeight > box.scrollTop + box.clientHeight - margin) {
    box.scrollTop = top + lineHeight - box.clientHeight + margin;
  }
}

/** Remembers where a list was scrolled to, for the way back and a reload. */
export function useKeptScroll(scroller: RefObject<HTMLElement | null>, key: string, ready: boolean): void {
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box === null || !ready) return undefined;
    const kept = sessionStorage.getItem(`scroll ${key}`);
    if (kept !== null) box.scrollTop = Number(kept);
    const keep = (): void => sessionStorage.setItem(`scroll ${key}`, String(Math.round(box.scrollTop)));
    let timer = 0;
    const later = (): void => {
      clearTimeout(timer);
      timer = window.setTimeout(keep, 150);
    };
    box.addEventListener("scroll", later, { passive: true });
    return () => {
      clearTimeout(timer);
      keep();
      box.removeEventListener("scroll", later);
    };
  }, [key, ready]);
}
