// Where the page's content comes from: the gateway that serves it, or the file that it was saved into.
import type {
  CallView,
  ExampleView,
  KeptView,
  RolloutListView,
  RolloutView,
  RowTokensView,
  SavedView,
  TextsView,
} from "../../src/page/view.ts";
import type { Place, Source } from "./route.ts";

export interface PageData {
  /** Null for a gateway; what was saved for a file. */
  readonly saved: SavedView | null;
  list(): Promise<RolloutListView>;
  rollout(place: Place, since: number): Promise<RolloutView>;
  kept(place: Place, asked: boolean): Promise<KeptView>;
  rowTokens(place: Place, index: number): Promise<RowTokensView>;
  call(place: Place, callId: string): Promise<CallView>;
  texts(source: Source, ids: readonly number[]): Promise<TextsView>;
  example(): Promise<ExampleView>;
}

/** An answer that is no 200, with what the gateway said. */
export class AnswerError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const KEY = "coppice-key";

export function operatorKey(): string | null {
  return sessionStorage.getItem(KEY);
}

export function keepOperatorKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

export function authorized(): Record<string, string> {
  const key = operatorKey();
  return key === null ? {} : { authorization: `Bearer ${key}` };
}

export function gatewayData(): PageData {
  const get = async <T>(path: string): Promise<T> => {
    const response = await fetch(`api/${path}`, { headers: authorized() });
    if (!response.ok) throw new AnswerError(response.status, await messageOf(response));
    return (await response.json()) as T;
  };
  const at = ({ source, rollout }: Place): string => `${source}/rollouts/${encodeURIComponent(rollout)}`;
  return {
    saved: null,
    list: () => get("ledger/rollouts"),
    rollout: (place, since) => get(`${at(place)}?since=${since}`),
    kept: (place, asked) => get(`${at(place)}/kept?asked=${asked}`),
    rowTokens: (place, index) => get(`${at(place)}/rows/${index}`),
    call: (place, callId) => get(`${at(place)}/calls/${encodeURIComponent(callId)}`),
    texts: (source, ids) => get(`${source}/texts?ids=${ids.join(",")}`),
    example: () => get("example"),
  };
}

async function messageOf(response: Response): Promise<string> {
  const body = (await response.json().catch(() => null)) as { error?: { message?: string } } | null;
  return body?.error?.message ?? `the gateway answered ${response.status}`;
}

export function savedData(saved: SavedView): PageData {
  const byId = new Map(saved.calls.map((call) => [call.call_id, call]));
  const missing = (what: string): never => {
    throw new AnswerError(404, `${what} is not in this file`);
  };
  return {
    saved,
    list: async () => ({ weight_version: null, rollouts: [saved.rollout.line], pending: 0 }),
    rollout: async () => saved.rollout,
    kept: async () => saved.kept,
    rowTokens: async (_place, index) => saved.rows[index] ?? missing(`row ${index}`),
    call: async (_place, callId) => byId.get(callId) ?? missing(`call ${callId}`),
    texts: async (_source, ids) => ({
      texts: Object.fromEntries(ids.map((id) => [id, saved.texts[id] ?? null])),
    }),
    example: async () => missing("the worked example"),
  };
}

/** The data of a saved page, which stands in it as JSON text; null on a page that a gateway serves. */
export function readSaved(): SavedView | null {
  const text = document.querySelector("#saved")?.textContent;
  return text === null || text === undefined ? null : (JSON.parse(text) as SavedView);
}
