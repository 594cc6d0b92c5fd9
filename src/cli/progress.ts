// Progress of long work: one line on stderr that is overwritten, on a terminal only; a pipe gets nothing.
export interface Progress {
  update(text: string): void;
  /** Clears the line. */
  done(): void;
}

const EVERY_MS = 100;

export function startProgress(stream: NodeJS.WriteStream = process.stderr): Progress {
  if (!stream.isTTY) return { update: () => undefined, done: () => undefined };
  let shownAt = 0;
  let shown = false;
  return {
    update(text) {
      const now = Date.now();
      if (now - shownAt < EVERY_MS) return;
      shownAt = now;
      shown = true;
      stream.write(`\r\u001B[2K${text.slice(0, (stream.columns ?? 80) - 1)}`);
    },
    done() {
      if (shown) stream.write("\r\u001B[2K");
    },
  };
}
