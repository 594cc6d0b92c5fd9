// Structured logs: one JSON line for start, stop and faults. Never bodies, prompts or keys: a line holds an event's
// name and a few scalars, and whoever adds a field answers for that.

export type LogFields = Readonly<Record<string, string | number | boolean | null>>;

/** Writes one line. Contract: must not throw. */
export type Log = (event: string, fields?: LogFields) => void;

/** Lines such as `{"at":"2026-01-01T00:00:00.000Z","event":"started","url":"http://127.0.0.1:8080"}`. */
export function jsonLog(write: (line: string) => void = writeToStderr): Log {
  return (event, fields = {}) => {
    write(`${JSON.stringify({ at: new Date().toISOString(), event, ...fields })}\n`);
  };
}

function writeToStderr(line: string): void {
  process.stderr.write(line);
}
