// Who serves an embedded ledger: one process, which writes its id into the file. Whether that process still lives tells
// a call in flight from one that nobody will ever settle. A process is known by its id and its start (where the system
// tells it), since ids are used again. Processes of another machine or pid namespace cannot be told this way: a ledger
// file is for one machine.
import { readFileSync } from "node:fs";
import type Database from "better-sqlite3";
import { CoppiceError } from "../errors.ts";

interface Owner {
  readonly pid: number;
  /** Null where the system does not tell. */
  readonly process_start: string | null;
}

/**
 * Writes this process down as the one that serves the ledger; returns why calls still in flight are `unknown`. Call it
 * in a transaction that holds the write lock. Throws `conflict` with the pid while another process serves it.
 */
export function takeOwnership(db: Database.Database, location: string): string {
  const owner = readOwner(db);
  if (owner !== undefined && lives(owner)) {
    throw new CoppiceError(
      "conflict",
      `the ledger ${location} is served by process ${owner.pid}, which is running; stop it first, or open it read-only`,
      { detail: { pid: owner.pid } },
    );
  }
  db.prepare("DELETE FROM owner").run();
  db.prepare("INSERT INTO owner (pid, process_start) VALUES (?, ?)").run(
    process.pid,
    processStart(process.pid),
  );
  return whyAbandoned(owner);
}

export function releaseOwnership(db: Database.Database): void {
  db.prepare("DELETE FROM owner").run();
}

/** Why calls in flight will never settle; null while the process that serves the ledger lives. */
export function abandonment(db: Database.Database): string | null {
  const owner = readOwner(db);
  return owner !== undefined && lives(owner) ? null : whyAbandoned(owner);
}

function readOwner(db: Database.Database): Owner | undefined {
  return db.prepare<[], Owner>("SELECT pid, process_start FROM owner").get();
}

function whyAbandoned(owner: Owner | undefined): string {
  return owner === undefined
    ? "the ledger was closed before this call settled"
    : `process ${owner.pid} ended before this call settled`;
}

function lives(owner: Owner): boolean {
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    // EPERM: it lives and belongs to somebody else.
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  const start = processStart(owner.pid);
  if (start === "ended") return false;
  return start === null || owner.process_start === null || start === owner.process_start;
}

/**
 * When the process started, in clock ticks since a boot that is named, from /proc/PID/stat (man 5 proc); `ended` for
 * one that only waits to be reaped; null where there is no such file.
 */
function processStart(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the command in parentheses and may hold any character.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return "ended";
    return `${fields[19]}@${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}`;
  } catch (error) {
    if (error instanceof Error && "code" in error) return null;
    throw error;
  }
}
