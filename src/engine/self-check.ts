// Whether an engine can be asked the token-in way: one short call through all three steps, whose ids must come back
// as they went in. What it throws says what is missing.
import { CoppiceError } from "../errors.ts";
import type { EngineReply } from "./engine.ts";
import { tokenInReply } from "./token-in-reply.ts";
import type { TokenIn } from "./token-in.ts";

/** Throws a CoppiceError where a step is refused or the ids do not come back. `model` is the engine's name for it. */
export async function checkTokenIn(
  tokenIn: TokenIn,
  model: string,
  signal: AbortSignal,
): Promise<EngineReply> {
  const messages = [{ role: "user", content: "Hello" }];
  const body = { ...tokenIn.defaults, model, messages, max_tokens: 1 };
  const rendering = await tokenIn.render({ body, messages, ending: "as asked", signal });
  const { ids } = rendering;
  const generated = await tokenIn.generate({ body, ids, rendering, stream: false, signal });
  if (generated.error !== null) throw generated.error;
  const parsed = await tokenIn.parse({ body, ids, generated, signal });
  const reply = tokenInReply({ body, ids, generated, parsed });
  const [choice] = reply.choices;
  if (generated.promptTokenIds === null && generated.promptLength === null) {
    throw new CoppiceError("engine_error", "the engine does not say which prompt it read");
  }
  if (choice === undefined || choice.untrainable !== null) {
    throw new CoppiceError("engine_error", choice?.untrainable ?? "the engine gave no choice");
  }
  return reply;
}
