// OpenAI-style logs: one call a line, `{request, response}` with the bodies as they went over the wire, or the answer
// alone, or a batch file's `{custom_id, response: {status_code, body}}`. The rollout is `rollout_id`, `session_id` or
// `custom_id`, of the line or of its `metadata`. Lines of `"type": "outcome"` are outcomes in the trace's own form.
import { z } from "zod";
import { isRecord } from "../../lineage/message.ts";
import { callsOfAnswer } from "./choices.ts";
import {
  NotImportable,
  startLogged,
  type ImportOptions,
  type Logged,
  type LoggedOutcome,
  type LogLine,
} from "./logged.ts";

const name = z.union([z.string().min(1), z.number().int()]).transform(String);

export function readOpenAiLog(lines: Iterable<LogLine>, options: ImportOptions): Logged {
  const { logged, take } = startLogged();
  for (const { line, value } of lines) {
    const record = isRecord(value) ? value : {};
    if (record["type"] === "outcome") {
      logged.outcomes.push(record as unknown as LoggedOutcome);
      continue;
    }
    const rolloutId = rolloutOf(record) ?? options.rolloutId ?? null;
    take(rolloutId ?? "unknown", line, () => {
      if (rolloutId === null) {
        throw new NotImportable(
          "no rollout_id, session_id or custom_id; --rollout ID names the rollout of all lines",
        );
      }
      return callsOfAnswer({
        rolloutId,
        fallbackId: `line-${line}`,
        request: record["request"] ?? record["body"] ?? null,
        response: answerIn(record),
        weightVersion: versionOf(record),
        logprobsMode: options.logprobsMode ?? null,
      });
    });
  }
  return logged;
}

function rolloutOf(record: Readonly<Record<string, unknown>>): string | null {
  const metadata = isRecord(record["metadata"]) ? record["metadata"] : {};
  for (const field of ["rollout_id", "session_id", "custom_id"]) {
    const found = name.safeParse(record[field] ?? metadata[field]);
    if (found.success) return found.data;
  }
  return null;
}

function answerIn(record: Readonly<Record<string, unknown>>): unknown {
  const response = record["response"];
  if (!isRecord(response)) return record;
  return isRecord(response["body"]) ? response["body"] : response;
}

function versionOf(record: Readonly<Record<string, unknown>>): string | null {
  const version = name.safeParse(record["weight_version"]);
  return version.success ? version.data : null;
}
