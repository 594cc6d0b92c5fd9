// What the page is told of one source of records, with what is worth remembering between two questions: summaries of
// the rollouts that are being looked at, what was measured of each rollout, and the rows that were built last. All of
// it is bounded and can be made again; nothing is written anywhere.
import { setImmediate as nextTurn } from "node:timers/promises";
import { CoppiceError, messageOf } from "../errors.ts";
import type { Log } from "../gateway/log.ts";
import type { Rollout } from "../ledger/ledger.ts";
import { callId, rolloutId, type Call, type CallSummary } from "../lineage/call.ts";
import type { Forest } from "../lineage/forest.ts";
import type { RolloutRows } from "../rows/row.ts";
import { callView, compareTo, comparedWith, type Compared } from "./call-view.ts";
import { callColumns } from "./calls-view.ts";
import { HeldCalls, lastOrder } from "./held-calls.ts";
import { keptView, rowTokensView } from "./kept-view.ts";
import { groupAdvantages, measureCalls, measuredView, rolloutLine, type Measured } from "./list-view.ts";
import type { PageSource } from "./page-source.ts";
import { Recent } from "./recent.ts";
import type { CallView, KeptView, RolloutLine, RolloutListView, RolloutView, RowTokensView } from "./view.ts";

/** Rows of a larger rollout are built where a person asks: it takes the gateway's thread for a second or more. */
const LARGE_CALLS = 20_000;
/** Calls told at once: few at first, so that there is something to see. */
const FIRST_PIECE = 4000;
const NEXT_PIECE = 16_000;
/** Summaries held in memory, about half a kilobyte each. */
const MOST_SUMMARIES = 250_000;
const MOST_MEASURED = 50_000;
const MOST_BUILT_TOKENS = 16_000_000;
/** Groups beyond this size are not measured for the advantage of one of their rollouts. */
const LARGE_GROUP = 1024;

interface Built {
  readonly calls: readonly Call[];
  readonly rows: RolloutRows | null;
}

export class PageModel {
  readonly #source: PageSource;
  readonly #log: Log;
  readonly #held = new Recent<HeldCalls>(MOST_SUMMARIES, (held) => held.size + 1);
  readonly #measured = new Recent<Measured>(MOST_MEASURED, () => 1);
  readonly #built = new Recent<Built>(MOST_BUILT_TOKENS, ({ calls }) =>
    calls.reduce((sum, call) => sum + call.carriedLength + call.generatedLength + 100, 1000),
  );
  #isMeasuring = false;

  constructor(source: PageSource, log: Log) {
    this.#source = source;
    this.#log = log;
  }

  /** Lines with what is known by now; the rest is measured meanwhile, a rollout at a time. */
  async list(): Promise<RolloutListView> {
    const [rollouts, weightVersion] = await Promise.all([
      this.#source.rollouts(),
      this.#source.weightVersion(),
    ]);
    const unmeasured = rollouts.filter((rollout) => this.#known(rollout) === null);
    if (unmeasured.length > 0) this.#measureAll(unmeasured);
    const advantages = this.#advantages(rollouts);
    return {
      weight_version: weightVersion,
      rollouts: rollouts.map((rollout) => this.#line(rollout, advantages.get(rollout.rolloutId) ?? null)),
      pending: unmeasured.length,
    };
  }

  /**
   * Throws `not_found`. `since` leaves out the calls that the page has. A long rollout is told a piece at a time: `more`
   * says that the next piece is to be asked for.
   */
  async rollout(id: string, since: number): Promise<RolloutView> {
    const rollout = await this.#find(id);
    const held = this.#hold(rollout);
    const most = since === 0 ? FIRST_PIECE : NEXT_PIECE;
    let piece = held.after(since, most);
    if (piece.length < most) {
      await this.#readPiece(rollout, held);
      piece = held.after(since, most);
    }
    this.#held.set(heldKey(rollout), held);
    if (rollout.counts.admitted <= FIRST_PIECE) await this.#measure(rollout);
    const last = piece.at(-1);
    return {
      line: this.#line(rollout, await this.#advantage(rollout)),
      calls: callColumns(held, piece),
      until: last === undefined ? since : lastOrder(last),
      more: piece.length === most,
    };
  }

  async kept(id: string, asked: boolean): Promise<KeptView> {
    const rollout = await this.#find(id);
    if (rollout.state !== "sealed") return { kind: "open" };
    if (rollout.counts.admitted > LARGE_CALLS && !asked)
      return { kind: "unasked", calls: rollout.counts.admitted };
    const { calls, rows } = await this.#build(rollout);
    await this.#measure(rollout);
    return keptView(withAdvantage(rows, await this.#advantage(rollout)), calls);
  }

  async rowTokens(id: string, index: number): Promise<RowTokensView> {
    const { rows } = await this.#build(await this.#find(id));
    const row = rows?.kind === "rows" ? rows.rows[index] : undefined;
    if (row === undefined) throw new CoppiceError("not_found", `rollout ${id} has no row ${index}`);
    return rowTokensView(row);
  }

  async call(id: string, call: string): Promise<CallView> {
    const rollout = await this.#find(id);
    const found = await this.#source.call(rollout, callId(call));
    if (found === null) throw new CoppiceError("not_found", `rollout ${id} has no call ${call}`);
    const forest = (await this.#readAll(rollout)).forest();
    return callView(forest, found, await this.#compared(rollout, forest, found));
  }

  async #compared(rollout: Rollout, forest: Forest, root: Call): Promise<Compared | null> {
    const other = comparedWith(forest, root);
    if (other === null) return null;
    const chain: Call[] = [];
    for (let at: CallSummary | undefined = other; at !== undefined;) {
      const call = await this.#source.call(rollout, at.callId);
      // Swept between the two reads.
      if (call === null) return null;
      chain.push(call);
      at = at.parentCallId === null ? undefined : forest.byId.get(at.parentCallId);
    }
    return compareTo(other, chain.reverse());
  }

  async #find(id: string): Promise<Rollout> {
    const rollout = await this.#source.rollout(rolloutId(id));
    if (rollout === null) throw new CoppiceError("not_found", `there is no rollout ${id}`);
    return rollout;
  }

  #hold(rollout: Rollout): HeldCalls {
    const key = heldKey(rollout);
    const held = this.#held.get(key) ?? new HeldCalls();
    this.#held.set(key, held);
    return held;
  }

  /** Reads on from what is held; false once nothing is left. */
  async #readPiece(rollout: Rollout, held: HeldCalls): Promise<boolean> {
    const { until } = held;
    const fresh = await this.#source.summaries(rollout, until, NEXT_PIECE);
    // Another question may have read the same piece meanwhile.
    held.add(held.until === until ? fresh : fresh.filter((call) => lastOrder(call) > held.until));
    return fresh.length === NEXT_PIECE;
  }

  async #readAll(rollout: Rollout): Promise<HeldCalls> {
    const held = this.#hold(rollout);
    while (await this.#readPiece(rollout, held)) await nextTurn();
    this.#held.set(heldKey(rollout), held);
    return held;
  }

  async #build(rollout: Rollout): Promise<Built> {
    const key = keyOf(rollout);
    const known = this.#built.get(key);
    if (known !== undefined) return known;
    const calls = await this.#source.calls(rollout);
    const built = { calls, rows: rollout.state === "sealed" ? this.#source.build(rollout, calls) : null };
    this.#built.set(key, built);
    return built;
  }

  #known(rollout: Rollout): Measured | null {
    return this.#measured.get(keyOf(rollout)) ?? null;
  }

  async #measure(rollout: Rollout): Promise<void> {
    const known = this.#known(rollout);
    const key = keyOf(rollout);
    // A large rollout is measured again once its rows were asked for.
    if (
      known !== null &&
      (known.rows !== null || rollout.state !== "sealed" || this.#built.get(key) === undefined)
    )
      return;
    const small = rollout.counts.admitted <= LARGE_CALLS;
    const built =
      rollout.state === "sealed" && (small || this.#built.get(key) !== undefined)
        ? await this.#build(rollout)
        : null;
    const calls = built?.calls ?? (await this.#readAll(rollout)).all();
    this.#measured.set(key, measureCalls(rollout, calls, built?.rows ?? null));
  }

  #measureAll(rollouts: readonly Rollout[]): void {
    if (this.#isMeasuring) return;
    this.#isMeasuring = true;
    void this.#measureEach(rollouts).finally(() => (this.#isMeasuring = false));
  }

  async #measureEach(rollouts: readonly Rollout[]): Promise<void> {
    for (const rollout of rollouts) {
      try {
        await this.#measure(rollout);
      } catch (error) {
        // Swept meanwhile, or the ledger is closing: it stays unmeasured, and the next list asks again.
        this.#log("page_measure_failed", { rollout_id: rollout.rolloutId, reason: messageOf(error) });
        return;
      }
      await nextTurn();
    }
  }

  #line(rollout: Rollout, advantage: number | null): RolloutLine {
    const measured = this.#known(rollout);
    return rolloutLine(rollout, measured === null ? null : measuredView(measured, advantage));
  }

  #advantages(rollouts: readonly Rollout[]): Map<string, number | null> {
    const groups = new Map<string, Rollout[]>();
    for (const rollout of rollouts) {
      const group = rollout.groupId ?? rollout.rolloutId;
      const members = groups.get(group);
      if (members === undefined) groups.set(group, [rollout]);
      else members.push(rollout);
    }
    const all = new Map<string, number | null>();
    for (const members of groups.values()) {
      for (const [id, advantage] of groupAdvantages(members, (one) => this.#known(one)))
        all.set(id, advantage);
    }
    return all;
  }

  async #advantage(rollout: Rollout): Promise<number | null> {
    if (rollout.state !== "sealed") return null;
    const members = await this.#source.group(rollout);
    if (members.length > LARGE_GROUP) return null;
    for (const member of members) {
      if (member.counts.admitted <= FIRST_PIECE) await this.#measure(member);
    }
    return groupAdvantages(members, (one) => this.#known(one)).get(rollout.rolloutId) ?? null;
  }
}

function withAdvantage(built: RolloutRows | null, advantage: number | null): RolloutRows | null {
  if (built?.kind !== "rows") return built;
  return { ...built, rows: built.rows.map((row) => ({ ...row, advantage })) };
}

function heldKey({ rolloutId: id, attempt, state }: Rollout): string {
  return `${id}#${attempt}:${state}`;
}

/** Changes whenever anything that is measured or built may have changed. */
function keyOf({
  rolloutId: id,
  attempt,
  state,
  counts,
  outcome,
  groupId,
  generationIndex,
}: Rollout): string {
  const { admitted, committed, failed, aborted, unknown, late } = counts;
  const told = [
    attempt,
    state,
    admitted,
    committed,
    failed,
    aborted,
    unknown,
    late,
    outcome?.reward,
    groupId,
    generationIndex,
  ];
  return `${id} ${told.join(" ")}`;
}
