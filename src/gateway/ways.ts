// Decides for each call how the engine is asked: with messages, or with token ids that begin with the parent's
// recorded sequence. Whatever fails on the token-in way before the client has seen anything is answered by the text
// way or by the engine's own error, never from another prompt, and the record says which and why.
import { CoppiceError, messageOf } from "../errors.ts";
import type { Engine, EngineReply, EngineRequest } from "../engine/engine.ts";
import { PromptMaker, type Prompt, type PromptParent } from "../engine/prompt.ts";
import { tokenInReply } from "../engine/token-in-reply.ts";
import type { Generated, ParsedChoice, TokenIn } from "../engine/token-in.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { CallSummary, Message, Way as RecordedWay } from "../lineage/call.ts";
import { digestMessages } from "../lineage/message.ts";
import type { FollowedCall } from "../lineage/record-call.ts";
import type { AdmittedCall, AdmittedChoice } from "./recorder.ts";
import type { RolloutIndexes } from "./rollout-indexes.ts";
import { contextDigest } from "./template-context.ts";
import { TokenInCheck, type TokenInCheckParts, type Way } from "./token-in-check.ts";

type Json = Readonly<Record<string, unknown>>;

export interface WayRequest {
  /** Null for a call that is not captured. */
  readonly call: AdmittedCall | null;
  /** `text`: the body has a prompt and no messages. */
  readonly kind: "chat" | "text";
  /** As the engine is to be asked in the text way, messages included. */
  readonly body: Json;
  readonly messages: readonly Message[];
  readonly stream: boolean;
  readonly signal: AbortSignal;
  readonly onChunk?: EngineRequest["onChunk"];
}

/** How the engine was asked, for the record. */
export interface WayTaken {
  readonly way: RecordedWay;
  /** Why the text way was taken, or a new root. */
  readonly notes: readonly string[];
  /** Sampling settings that the request did not set and that were set for it. */
  readonly defaults: Readonly<Record<string, number>>;
  readonly contextDigest: string;
}

export type Asked = WayTaken &
  (
    | { readonly kind: "replied"; readonly reply: EngineReply }
    /** Nothing was sampled, as far as anybody knows. */
    | { readonly kind: "threw"; readonly error: unknown }
  );

export interface WayParts {
  readonly engine: Engine;
  readonly ledger: Ledger;
  readonly indexes: RolloutIndexes;
  readonly way: Way;
  readonly model: TokenInCheckParts["model"];
  readonly log: TokenInCheckParts["log"];
  /** Rendering and parsing take no longer, in milliseconds; 30 s by default. */
  readonly stepWithinMs?: number;
}

const STEP_WITHIN_MS = 30_000;

/** Statuses of a route that is not there or not open. */
const CLOSED: ReadonlySet<number> = new Set([403, 404, 405, 501]);

/** What was to be asked token-in goes the text way; in words. */
class TextInstead extends Error {}

export class Ways {
  readonly #parts: WayParts;
  readonly #tokenIn: TokenIn | null;
  readonly #check: TokenInCheck | null;
  readonly #prompts: PromptMaker | null;

  constructor(parts: WayParts) {
    this.#parts = parts;
    const tokenIn = parts.way === "text" ? null : (parts.engine.tokenIn ?? null);
    this.#tokenIn = tokenIn;
    this.#check = tokenIn === null ? null : new TokenInCheck({ tokenIn, model: parts.model, log: parts.log });
    this.#prompts = tokenIn === null ? null : new PromptMaker(tokenIn);
  }

  /** Finds out what the engine can do. Throws `engine_error` where token-in is wanted and cannot be. */
  async start(): Promise<void> {
    const { way, engine } = this.#parts;
    if (way === "text" || (way === "auto" && this.#check === null)) return;
    const checking =
      this.#check?.check() ?? Promise.resolve(`no token-in way is known for ${engine.kind} engines`);
    if (way === "auto") return;
    const why = await checking;
    if (why === null) return;
    throw new CoppiceError("engine_error", `the engine at ${engine.url} cannot be asked token-in: ${why}`, {
      param: "way",
    });
  }

  /** Contract: must not throw. */
  async ask(request: WayRequest): Promise<Asked> {
    const context = contextDigest(request.body);
    const text: WayTaken = { way: "text", notes: [], defaults: {}, contextDigest: context };
    const { call } = request;
    const tokenIn = this.#tokenIn;
    if (tokenIn === null || call === null || request.kind === "text") return this.#askText(request, text);
    try {
      const whyNot = tokenIn.unfit(request.body) ?? (await this.#check?.whyNot()) ?? null;
      if (whyNot !== null) throw new TextInstead(whyNot);
      return await this.#askTokenIn(request, call, context);
    } catch (error) {
      if (!(error instanceof TextInstead)) return { ...text, way: "token-in", kind: "threw", error };
      return this.#askText(request, { ...text, notes: [`text way: ${error.message}`] });
    }
  }

  async #askText(request: WayRequest, taken: WayTaken): Promise<Asked> {
    const { body, stream, signal, onChunk } = request;
    try {
      const asked = { body, stream, signal, ...(onChunk === undefined ? {} : { onChunk }) };
      const { engine } = this.#parts;
      const reply = request.kind === "text" ? completeText(engine, asked) : engine.chat(asked);
      return { ...taken, kind: "replied", reply: await reply };
    } catch (error) {
      return { ...taken, kind: "threw", error };
    }
  }

  async #askTokenIn(request: WayRequest, call: AdmittedCall, context: string): Promise<Asked> {
    const tokenIn = this.#tokenIn as TokenIn;
    const body = { ...tokenIn.defaults, ...withoutNulls(request.body) };
    const notes: string[] = [];
    const prompt = await this.#prompt(request, call, { body, context, notes });
    const { ids, rendering } = prompt;
    const { stream, signal, onChunk } = request;
    const generated = await tokenIn
      .generate({ body, ids, rendering, stream, signal, ...(onChunk === undefined ? {} : { onChunk }) })
      .catch((error: unknown) => {
        if (!isClosed(error)) throw error;
        this.#check?.lost(messageOf(error));
        throw new TextInstead(`generating from ids was refused: ${messageOf(error)}`);
      });
    const parsed = await this.#parse(request, { body, ids, generated });
    const reply = tokenInReply({ body, ids, generated, parsed });
    return {
      kind: "replied",
      reply,
      way: "token-in",
      notes,
      defaults: tokenIn.defaults,
      contextDigest: context,
    };
  }

  async #prompt(
    request: WayRequest,
    call: AdmittedCall,
    { body, context, notes }: { readonly body: Json; readonly context: string; readonly notes: string[] },
  ): Promise<Extract<Prompt, { kind: "prompt" }>> {
    const prompts = this.#prompts as PromptMaker;
    const { messages } = request;
    const parent = await this.#parentOf(call, digestMessages(messages, context), notes);
    const ask = { body, messages, contextDigest: context, signal: this.#stepSignal(request.signal) };
    const step = async (from: PromptParent | null): Promise<Prompt> => {
      try {
        return await prompts.make({ ...ask, parent: from });
      } catch (error) {
        if (isClosed(error)) this.#check?.lost(messageOf(error));
        throw new TextInstead(`rendering failed: ${messageOf(error)}`);
      }
    };
    const made = await step(parent);
    if (made.kind === "prompt") return made;
    if ((this.#tokenIn as TokenIn).textTellsIds) throw new TextInstead(made.why);
    // Asked with messages this engine would tell no ids: the rendering is the same prompt, and is known.
    notes.push(`new root: ${made.why}`);
    const whole = await step(null);
    if (whole.kind === "prompt") return whole;
    throw new TextInstead(whole.why);
  }

  /** The call that the messages go on from; null for a root. */
  async #parentOf(
    call: AdmittedCall,
    messageDigests: readonly string[],
    notes: string[],
  ): Promise<PromptParent | null> {
    const { rolloutId, namedParent } = call.request;
    const { admittedOrder } = call.choices[0] as AdmittedChoice;
    try {
      const index = await this.#parts.indexes.before(rolloutId, call.attempt, admittedOrder);
      const followed = index.followedBy(messageDigests, admittedOrder, namedParent);
      return followed === null ? null : await this.#readParent(followed);
    } catch (error) {
      if (error instanceof TextInstead) throw error;
      // A ledger that cannot be read costs a root, never an answer.
      notes.push(`new root: the parent could not be read: ${messageOf(error)}`);
      return null;
    }
  }

  async #readParent({ call, answerIndex }: FollowedCall): Promise<PromptParent> {
    // In the text way ids that do not agree with the counts may lack some; a prompt must not be built on them.
    if (call.untrainable !== null && call.way === "text") {
      throw new TextInstead(`the ids of ${call.callId} may not be whole: ${call.untrainable}`);
    }
    const sequence = await this.#parts.ledger.sequence(call.callId);
    if (sequence === null)
      throw new TextInstead(`the sequence of ${call.callId} is not in the ledger any more`);
    return { answerIndex, sequence, generatedLength: call.generatedLength, cutOff: isCutOff(call) };
  }

  async #parse(
    request: WayRequest,
    asked: { readonly body: Json; readonly ids: Uint32Array; readonly generated: Generated },
  ): Promise<readonly ParsedChoice[]> {
    const { generated } = asked;
    // What broke off is kept as far as it was told.
    if (generated.ending !== "complete") return generated.choices.map(asText);
    try {
      const signal = this.#stepSignal(request.signal);
      return await (this.#tokenIn as TokenIn).parse({ ...asked, signal });
    } catch (error) {
      const sampled = generated.choices.reduce((sum, choice) => sum + (choice.tokenIds?.length ?? 0), 0);
      throw new TextInstead(
        `parsing failed, and ${sampled} sampled tokens were dropped: ${messageOf(error)}`,
      );
    }
  }

  #stepSignal(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, AbortSignal.timeout(this.#parts.stepWithinMs ?? STEP_WITHIN_MS)]);
  }
}

function completeText(engine: Engine, asked: EngineRequest): Promise<EngineReply> {
  if (engine.complete !== undefined) return engine.complete(asked);
  throw new CoppiceError("engine_error", `the engine at ${engine.url} has no text completions`, {
    status: 501,
  });
}

function asText({ text, finishReason, entries }: Generated["choices"][number]): ParsedChoice {
  return { message: { role: "assistant", content: text ?? "" }, finishReason, entries };
}

/** The answer did not come to its own end, so nothing of its turn's end was sampled. */
function isCutOff({ status, finishReason }: CallSummary): boolean {
  return status === "aborted" || (finishReason !== "stop" && finishReason !== "tool_calls");
}

function isClosed(error: unknown): boolean {
  const status = error instanceof CoppiceError ? error.detail?.["status"] : null;
  return typeof status === "number" && CLOSED.has(status);
}

/** A null stands for the engine's own default, which is not a policy's. */
function withoutNulls(body: Json): Json {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}
