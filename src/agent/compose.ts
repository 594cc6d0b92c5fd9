// Policies one after the other: each is given the view of the one before as the view that goes on.
import type { Policy } from "./policy.ts";

export function compose(...policies: readonly Policy[]): Policy {
  return async (input) => {
    let view = input.continued;
    for (const policy of policies) view = await policy({ ...input, continued: view });
    return view;
  };
}
