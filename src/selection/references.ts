// From an outcome's references to the calls that they name: by id, exactly; by content where an item carries no id,
// together with the items before it. Never by guess: a reference that fits two calls that differ is a refusal.
import { standsInForest, type Call, type CallId, type Message } from "../lineage/call.ts";
import { requestMessages, type Forest } from "../lineage/forest.ts";
import { isRecord, meaningOf } from "../lineage/message.ts";
import type { Reference, Refusal } from "./outcome.ts";

export type Resolved =
  | { readonly kind: "call"; readonly call: Call; readonly byContent: boolean }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Looks references up among the calls of one rollout. Indexes are built once, and only those that are asked for. */
export class ReferenceIndex {
  readonly #forest: Forest<Call>;
  readonly #byId = new Map<string, Call[]>();
  #byMeaning: Map<string, Call[]> | null = null;

  constructor(forest: Forest<Call>) {
    this.#forest = forest;
    for (const call of forest.calls) {
      this.#add(call.callId, call);
      if (call.responseId !== null && call.responseId !== call.callId) this.#add(call.responseId, call);
    }
  }

  /**
   * @param where how the caller named the place, e.g. `accepted[2]` or `final`
   * @param before gives the references before this one, for content matching alone; null where nobody told any, so
   * that the content must be unique by itself
   * @param taken calls that earlier references of the list name
   */
  resolve(
    reference: Reference,
    where: string,
    before: (() => readonly Reference[]) | null,
    taken: ReadonlySet<CallId>,
  ): Resolved {
    const id = typeof reference === "string" ? reference : reference.item["id"];
    if (typeof id === "string") return this.#resolveId(id, where);
    return this.#resolveItem((reference as { readonly item: Message }).item, where, before, taken);
  }

  #add(id: string, call: Call): void {
    const calls = this.#byId.get(id);
    if (calls === undefined) this.#byId.set(id, [call]);
    else calls.push(call);
  }

  #resolveId(id: string, where: string): Resolved {
    const calls = this.#byId.get(id) ?? [];
    if (calls.length === 1) return { kind: "call", call: calls[0] as Call, byContent: false };
    if (calls.length === 0) {
      return refused(
        "unknown_reference",
        `${where} names ${id}, which is no call or response of this rollout`,
      );
    }
    return refused("ambiguous_reference", `${where} names ${id}, which is ${listCalls(calls)}`);
  }

  #resolveItem(
    item: Message,
    where: string,
    before: (() => readonly Reference[]) | null,
    taken: ReadonlySet<CallId>,
  ): Resolved {
    const message = itemAsMessage(item);
    const same = this.#answersByMeaning().get(meaningOf(message)) ?? [];
    if (same.length === 0) {
      const kept = this.#forest.calls.every((call) => call.answer !== null || !standsInForest(call));
      const why = kept
        ? "has the content of no answer of this rollout"
        : "can't be matched by content: answers were not kept";
      return refused("unknown_reference", `${where} ${why}`);
    }
    const history = before?.().flatMap((reference) => this.#meaningOfReference(reference)) ?? null;
    const fitting = history === null ? same : this.#fittingAfter(history, same);
    if (fitting.length === 0) {
      return refused(
        "unknown_reference",
        `${where} has the content of ${listCalls(same)}, but not after the items before it`,
      );
    }
    const first = fitting[0] as Call;
    if (fitting.some((call) => call.address !== first.address)) {
      return refused("ambiguous_reference", `${where} has the content of ${listCalls(fitting)}`);
    }
    const free = fitting.findLast((call) => !taken.has(call.callId));
    return { kind: "call", call: free ?? first, byContent: true };
  }

  #answersByMeaning(): Map<string, Call[]> {
    if (this.#byMeaning !== null) return this.#byMeaning;
    const index = new Map<string, Call[]>();
    const standing = this.#forest.calls
      .filter((call) => standsInForest(call) && call.answer !== null)
      .sort((one, other) => (one.settledOrder as number) - (other.settledOrder as number));
    for (const call of standing) {
      const meaning = meaningOf(call.answer as Message);
      const same = index.get(meaning);
      if (same === undefined) index.set(meaning, [call]);
      else same.push(call);
    }
    return (this.#byMeaning = index);
  }

  /** The answers before this one, by meaning; references by id are looked up for it. */
  #meaningOfReference(reference: Reference): readonly string[] {
    if (typeof reference !== "string") return [meaningOf(itemAsMessage(reference.item))];
    const answer = this.#byId.get(reference)?.[0]?.answer;
    return answer === undefined || answer === null ? [] : [meaningOf(answer)];
  }

  /** A call that has seen all the items before it outranks those whose context was rewritten. */
  #fittingAfter(history: readonly string[], calls: readonly Call[]): readonly Call[] {
    const following = calls.filter((call) => this.#answersBefore(call, history) !== null);
    const whole = following.filter((call) => this.#answersBefore(call, history) === history.length);
    return whole.length > 0 ? whole : following;
  }

  /**
   * How many of the last answers of `history` stand in the call's own request; null where its request holds others. A
   * rewritten context holds fewer of them than there were. Assistant messages that no call produced don't count.
   */
  #answersBefore(call: Call, history: readonly string[]): number | null {
    const answers = this.#answersByMeaning();
    const own = (requestMessages(this.#forest, call) ?? [])
      .filter((message) => message["role"] === "assistant")
      .map(meaningOf)
      .filter((meaning) => answers.has(meaning));
    if (own.length > history.length) return null;
    const fits = own.every((meaning, index) => meaning === history[history.length - own.length + index]);
    return fits ? own.length : null;
  }
}

function refused(reason: Refusal["reason"], detail: string): Resolved {
  return { kind: "refused", refusal: { reason, detail } };
}

function listCalls(calls: readonly Call[]): string {
  return `${calls.length} calls (${calls.map((call) => call.callId).join(", ")})`;
}

/**
 * A response item as an assistant message: chat messages stand as they are, Responses items (`message`,
 * `function_call`, or a whole response with `output`) and Messages content blocks are turned into one.
 */
export function itemAsMessage(item: Message): Message {
  const items = Array.isArray(item["output"]) ? item["output"].filter(isRecord) : [item];
  const texts: unknown[] = [];
  const toolCalls: unknown[] = [];
  for (const part of items) {
    if (part["type"] === "function_call") {
      toolCalls.push({ id: part["call_id"], function: { name: part["name"], arguments: part["arguments"] } });
    } else if (part["type"] !== "reasoning") {
      readContent(part, texts, toolCalls);
    }
  }
  return { role: "assistant", content: texts, tool_calls: toolCalls };
}

function readContent(part: Message, texts: unknown[], toolCalls: unknown[]): void {
  const content = part["content"];
  for (const block of Array.isArray(content) ? content : [content]) {
    if (isRecord(block) && block["type"] === "tool_use") {
      toolCalls.push({ id: block["id"], function: { name: block["name"], arguments: block["input"] } });
    } else if (block !== null && block !== undefined) texts.push(block);
  }
  if (Array.isArray(part["tool_calls"])) toolCalls.push(...(part["tool_calls"] as unknown[]));
}
