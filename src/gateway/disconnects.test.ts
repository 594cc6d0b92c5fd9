// A client that goes away, on all four APIs and at every stage: field case litellm 30244. client-gone.test.ts has what
// becomes of chat completions in detail.
import { describe, expect, test } from "vitest";
import { eventually, startUnderTest, type Json, type UnderTest } from "./testing/gateway-under-test.ts";
import { rawPost } from "./testing/raw-client.ts";

interface Api {
  readonly path: string;
  readonly body: (text: string) => Json;
  /** What stands in the stream once for each token. */
  readonly token: RegExp;
}

const APIS: Readonly<Record<string, Api>> = {
  "chat completions": {
    path: "/chat/completions",
    body: (text) => ({ messages: [{ role: "user", content: text }], max_tokens: 50 }),
    token: /"content":"[^"]/g,
  },
  responses: {
    path: "/responses",
    body: (text) => ({ input: text, max_output_tokens: 50 }),
    token: /event: response\.output_text\.delta/g,
  },
  messages: {
    path: "/messages",
    body: (text) => ({ messages: [{ role: "user", content: text }], max_tokens: 50 }),
    token: /"type":"text_delta"/g,
  },
  completions: {
    path: "/completions",
    body: (text) => ({ prompt: text, max_tokens: 50 }),
    token: /"text":"[^"]/g,
  },
};

const STAGES = [
  ["before the first byte of a stream", "hang", true, 0],
  ["in the middle of a stream", "stall=5", true, 4],
  ["while an answer that is not streamed is on its way", "stall=5", false, 0],
] as const;

describe.each(Object.entries(APIS))("a client of %s that goes away (litellm 30244)", (_name, api) => {
  test.each(STAGES)(
    "%s: the engine sees it within a second, and the call is aborted",
    async (_stage, fault, stream, tokens) => {
      const under = await startUnderTest();
      const body = { model: "any", ...api.body(`@@fault:${fault}@@`), stream };
      const call = await rawPost(under.url, `/r/r1/v1${api.path}`, body);
      const asked = await eventually("the engine is asked", () => completion(under));
      if (tokens > 0) {
        await eventually("tokens came", () => (call.received().match(api.token) ?? []).length >= tokens);
      }
      call.leave();
      await eventually("the engine sees it", () => asked.clientGoneAt !== null, 1000);
      const record = await eventually("the call is settled", async () =>
        (await under.calls("r1")).find(({ status }) => status !== "admitted"),
      );
      expect(record).toMatchObject({ status: "aborted", statusDetail: "the client went away" });
      // The last token may have been held back for a stop string or lie in a frame that was not sent yet.
      if (tokens > 0) expect(record.generatedLength).toBeGreaterThanOrEqual(tokens);
      else expect(record.generatedLength).toBe(0);
    },
  );
});

function completion(under: UnderTest): UnderTest["standIn"]["requests"][number] | undefined {
  return under.standIn.requests.find(({ path }) => path.endsWith("/completions"));
}
