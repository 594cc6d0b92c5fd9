// The command of `coppice run` as a child process: it has this process's terminal, hears its signals, and is ended, with
// all that it started, when its time is over.
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { CoppiceError, messageOf } from "../errors.ts";

export type Ended =
  | { readonly kind: "exited"; readonly code: number }
  | { readonly kind: "killed"; readonly why: string };

/** Milliseconds between the request to end and the end. */
const GRACE_MS = 5000;

/** Throws `unavailable` where the command cannot be started. */
export function runChild(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  timeoutS: number | null,
): Promise<Ended> {
  const [program = "", ...args] = command;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, stdio: "inherit" });
    let overdue = false;
    const timers: NodeJS.Timeout[] = [];
    const end = (): void => {
      overdue = true;
      child.kill("SIGTERM");
      timers.push(setTimeout(() => child.kill("SIGKILL"), GRACE_MS));
    };
    if (timeoutS !== null) timers.push(setTimeout(end, timeoutS * 1000));
    const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
    for (const signal of SIGNALS) process.on(signal, forward);
    const done = (): void => {
      for (const timer of timers) clearTimeout(timer);
      for (const signal of SIGNALS) process.off(signal, forward);
    };
    child.once("error", (cause) => {
      done();
      reject(new CoppiceError("unavailable", `can't start ${program}: ${messageOf(cause)}`, { cause }));
    });
    child.once("close", (code, signal) => {
      done();
      if (overdue) resolve({ kind: "killed", why: `the command was ended after ${timeoutS} s` });
      else if (signal !== null) {
        resolve({ kind: "killed", why: `the command was ended by ${signal} (${constants.signals[signal]})` });
      } else resolve({ kind: "exited", code: code ?? 1 });
    });
  });
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
