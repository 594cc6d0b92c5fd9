// The thread in which an embedded ledger's connection lives. Everything that has arrived while the last transaction was
// synced forms the next one. It answers in the order in which it was asked; errors go over as plain values.
import { parentPort, receiveMessageOnPort, workerData, type MessagePort } from "node:worker_threads";
import { toPlainError, type PlainOutcome, type WorkerReply, type WorkerRequest } from "./worker-messages.ts";
import { SqliteEngine, type VerbOutcome } from "./sqlite-engine.ts";
import type { FileOptions } from "./sqlite-file.ts";

const port = parentPort as MessagePort;
const { path, options } = workerData as { readonly path: string; readonly options: FileOptions };

function reply(message: WorkerReply): void {
  port.postMessage(message, []);
}

function toPlain(outcome: VerbOutcome): PlainOutcome {
  return outcome.ok ? outcome : { ok: false, error: toPlainError(outcome.error) };
}

function start(): void {
  const engine = new SqliteEngine(path, options);
  port.on("message", (first: WorkerRequest) => {
    const requests = [first];
    for (let next = arrived(); next !== null; next = arrived()) requests.push(next);
    const verbs = requests.flatMap((request) => request.verbs);
    if (verbs.length > 0) {
      const { outcomes, facts } = engine.run(verbs);
      reply({ kind: "done", outcomes: outcomes.map(toPlain), facts });
    }
    if (requests.some((request) => request.close)) close(engine);
  });
  reply({ kind: "open" });
}

function arrived(): WorkerRequest | null {
  const next = receiveMessageOnPort(port);
  return next === undefined ? null : (next.message as WorkerRequest);
}

function close(engine: SqliteEngine): void {
  let error: unknown = null;
  try {
    engine.close();
  } catch (thrown) {
    error = thrown;
  }
  reply({ kind: "closed", error: error === null ? null : toPlainError(error) });
  port.close();
}

try {
  start();
} catch (error) {
  reply({ kind: "refused", error: toPlainError(error) });
}
