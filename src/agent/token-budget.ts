// The policy that keeps a view within a number of tokens, counted by the engine's own tokenizer and template.
import { AgentError } from "./agent-error.ts";
import type { ChatMessage } from "./chat-client.ts";
import { wholeFromOne } from "./numbers.ts";
import type { Policy, PolicyInput } from "./policy.ts";
import { tokensAbove } from "./schedule.ts";
import { unitsOf, type Units } from "./units.ts";

export interface TokenBudgetOptions {
  /** Tokens that a view is cut back to once it is over the budget; half of the budget by default. */
  readonly to?: number;
}

/**
 * Where the view that goes on has more than `budget` tokens, its oldest actions are left out until no more than `to`
 * remain; the newest action stays in any case. Counts about log2 of the number of actions views when it cuts.
 * Throws `invalid_argument` unless both are whole numbers from 1 up and `to` is within the budget.
 */
export function tokenBudget(budget: number, options: TokenBudgetOptions = {}): Policy {
  wholeFromOne("tokenBudget", budget);
  const to = wholeFromOne("tokenBudget.to", options.to ?? Math.max(1, Math.floor(budget / 2)));
  if (to > budget) {
    throw new AgentError(
      "invalid_argument",
      `tokenBudget.to got ${to}; it must be within the budget, ${budget}`,
    );
  }
  return async (input) => {
    if (!input.contextFull && (await tokensAbove(input, budget)) === null) return input.continued;
    return cutBack(input, unitsOf(input.continued, input.head), to);
  };
}

/** As many of the newest units as fit, and one at least. */
async function cutBack(
  { count, continued }: PolicyInput,
  { head, units }: Units,
  to: number,
): Promise<readonly ChatMessage[]> {
  if (units.length < 2) return continued;
  const viewOf = (kept: number): readonly ChatMessage[] => [...head, ...units.slice(-kept).flat()];
  let fits = 1;
  let tooMany = units.length;
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2);
    if ((await count(viewOf(middle))) <= to) fits = middle;
    else tooMany = middle;
  }
  return viewOf(fits);
}
