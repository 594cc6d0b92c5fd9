// NeMo Gym's captured calls: the lines of `ROLLOUT.tokens.jsonl`, one `TokenEntry` each (token_id_capture/records.py,
// record schema up to 3). A parent that Gym resolved is named; Coppice confirms it by tokens. Rewards and what was kept
// stand elsewhere in Gym, so outcomes come from --outcomes.
import { z } from "zod";
import { isRecord } from "../../lineage/message.ts";
import type { CallLine } from "../trace-format.ts";
import { NotImportable, startLogged, type ImportOptions, type Logged, type LogLine } from "./logged.ts";

/** Newer records may mean their fields otherwise. */
const NEWEST_SCHEMA = 3;

const ids = z.array(z.number().int().min(0).max(0xffff_ffff));

const entrySchema = z.object({
  schema_version: z.number().int().default(NEWEST_SCHEMA),
  rollout_id: z.string().min(1),
  model_call_id: z.string().min(1),
  prompt_token_ids: ids.min(1),
  generation_token_ids: ids,
  generation_log_probs: z.array(z.number().nullable()),
  response_id: z.string().nullish(),
  parent_call_id: z.string().nullish(),
  weight_version: z.union([z.string(), z.number()]).nullish(),
});

export function readNemoGymLog(lines: Iterable<LogLine>, options: ImportOptions): Logged {
  const { logged, take } = startLogged();
  for (const { line, value } of lines) {
    const named =
      isRecord(value) && typeof value["rollout_id"] === "string" ? value["rollout_id"] : "unknown";
    take(named, line, () => [callOf(value, options)]);
  }
  return logged;
}

function callOf(value: unknown, options: ImportOptions): CallLine {
  const parsed = entrySchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new NotImportable(
      `${issue?.path.map(String).join(".")}: ${issue?.message}; without ids there is no row`,
    );
  }
  const entry = parsed.data;
  if (entry.schema_version > NEWEST_SCHEMA) {
    throw new NotImportable(
      `schema_version is ${entry.schema_version}; records up to ${NEWEST_SCHEMA} are understood`,
    );
  }
  const { weight_version: version } = entry;
  return {
    type: "call",
    rollout_id: entry.rollout_id,
    call_id: entry.model_call_id,
    response_id: entry.response_id ?? null,
    prompt_token_ids: entry.prompt_token_ids,
    generated_token_ids: entry.generation_token_ids,
    generated_logprobs: entry.generation_log_probs,
    parent_call_id: entry.parent_call_id ?? null,
    weight_version: version === null || version === undefined ? null : String(version),
    logprobs_mode: options.logprobsMode ?? null,
  };
}
