// How much room an engine says that a prompt leaves. Agents ask for more tokens than any small engine has (32000 and
// up, by default); some engines cut such a request to what fits, others refuse it and tell the numbers.
import { CoppiceError } from "../errors.ts";

/** Fields that limit what is generated, by whatever name. */
export const LENGTH_LIMITS = ["max_tokens", "max_completion_tokens"] as const;

/** As vLLM (two ways, older and newer) and SGLang say it: the context, then the prompt's share. */
const REFUSALS = [
  /maximum context length is (\d+) tokens and your request has (\d+) input tokens/,
  /maximum context length is (\d+) tokens\. However, you requested \d+ tokens \((\d+) in the messages/,
  /maximum context length of (\d+) tokens\. You requested a total of \d+ tokens: (\d+) tokens from the input/,
];

/** Tokens that are left for the answer; null where the error says nothing of it, or none are left. */
export function contextRoom(error: unknown): number | null {
  if (!(error instanceof CoppiceError) || error.code !== "engine_error" || error.status !== 400) return null;
  for (const refusal of REFUSALS) {
    const told = refusal.exec(error.message);
    if (told === null) continue;
    const room = Number(told[1]) - Number(told[2]);
    return room > 0 ? room : null;
  }
  return null;
}

export interface Clamped {
  readonly body: Readonly<Record<string, unknown>>;
  /** What was used in place of what was asked; empty where everything fits. */
  readonly used: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
}

/** The body with its limits brought down to `room` tokens. */
export function clampLengths(body: Readonly<Record<string, unknown>>, room: number, why: string): Clamped {
  const used: Record<string, number> = {};
  const notes: string[] = [];
  for (const field of LENGTH_LIMITS) {
    const asked = body[field];
    if (typeof asked !== "number" || asked <= room) continue;
    used[field] = room;
    notes.push(`clamped: ${field} from ${asked} to ${room}, ${why}`);
  }
  return notes.length === 0 ? { body, used, notes } : { body: { ...body, ...used }, used, notes };
}
