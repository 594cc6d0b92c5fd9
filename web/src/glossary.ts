// What the page's words mean, in the words of the design. Each is shown where it stands (term.tsx) and in the help.

export const GLOSSARY = {
  rollout: "One agent working once on one task. It has an id, belongs to a group, and ends with an outcome.",
  group: "The rollouts of one task whose rewards are compared with one another.",
  call: "One model call: the prompt’s tokens, the generated tokens, and a log-prob for each generated token.",
  sequence: "A call’s prompt followed by what it generated.",
  parent: "The earlier call whose sequence this call’s prompt starts with: the longest such sequence.",
  carried:
    "What the prompt adds after the parent’s sequence, such as tool output and template tokens. A root carries its whole prompt.",
  generated: "Tokens that the model sampled in this call, each with its log-prob.",
  root: "A call without a parent: its prompt starts with no earlier sequence.",
  leaf: "A call without children.",
  tree: "A root and all calls below it.",
  forest: "All the trees of a rollout.",
  rewrite:
    "The agent changed its context (compaction), so the prompt starts with no earlier sequence: a new root.",
  drift:
    "The messages go on from an earlier call but the tokens do not (re-tokenising, or a template that drops reasoning): a new root, and a fault worth looking at.",
  asked_again: "A root with the same messages as an earlier root.",
  other_agent: "The first root of another agent, such as a sub-agent.",
  unknown_root: "A later root of a record without messages: what made it one cannot be told.",
  accepted: "What the agent kept.",
  rejected:
    "What the agent threw away: a retry or a side call. It is never walked and never trained, but still read and checked.",
  outcome:
    "The agent’s own record at the end: the reward, and either its accepted responses in order or its final response.",
  walk: "From a leaf to its parent, and so on up to its root. Reversed, it is a chain.",
  chain: "A leaf’s walk up to its root, reversed: root first.",
  row: "One training example: a chain’s tokens with mask and log-probs.",
  segment: "A row’s index within its rollout.",
  trained: "Tokens whose mask is 1: they take part in the loss. Each kept token trains in exactly one row.",
  context: "Tokens whose mask is 0: the model saw them here, and nothing is learned from them here.",
  reward: "What the rollout was worth, told with its outcome.",
  advantage:
    "The reward minus the group’s mean. One value for the rollout, copied to each of its rows undivided. Known once the group is complete.",
  weight_version: "Which policy weights generated a token.",
  refusal: "The rollout gives no rows, for the reason named. It stays out of its group’s mean.",
  alarm: "Something in the record that a person should look at.",
  logprob:
    "The natural logarithm of the probability with which the token was sampled. 0 is certain; the lower, the more surprising.",
  untrainable:
    "The record of the answer is not complete, so it must not train. The agent still got its answer.",
  twins: "Calls whose sequences are the same. They are interchangeable on a walk.",
  siblings: "Calls under the same parent, or roots asked with the same messages.",
  trees_not_walked: "Roots that stand in no row of the rollout.",
  late: "Calls that came after the rollout was sealed. They change nothing else.",
  token_in: "The engine was given token ids, so the parent’s sequence stands in the prompt exactly.",
} as const;

export type TermKey = keyof typeof GLOSSARY;
