import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import type { AgentError } from "./agent-error.ts";
import { openRollout, postOutcome } from "./rollout-api.ts";
import { codeOf, conversation, gateway } from "./testing/conversations.ts";

describe("the outcome", () => {
  test("the final form posts the last accepted response alone, with the client's key", async () => {
    const { url, received } = await gateway();
    const chat = conversation(url);
    chat.accept(await chat.ask());
    chat.accept(await chat.ask("o"));
    await chat.finish({ reward: 0.5, form: "final" });
    expect(received.at(-1)?.body).toEqual({ reward: 0.5, final: "resp-2" });
    expect(received.at(-1)?.headers.authorization).toBe("Bearer key-1");
  });

  test("the final form without an accepted answer is refused here, a reward that is no number too", async () => {
    const { url, received } = await gateway();
    const chat = conversation(url);
    expect(await codeOf(() => chat.finish({ form: "final" }))).toBe("nothing_accepted");
    expect(await codeOf(() => chat.finish({ reward: Number.NaN }))).toBe("invalid_argument");
    expect(received).toHaveLength(0);
  });

  test("a refused outcome tells the gateway's words and leaves the conversation open", async () => {
    let refuse = true;
    const { url } = await gateway(({ path }) =>
      path.endsWith("/outcome") && refuse
        ? {
            status: 422,
            json: {
              error: { message: "accepted[0] is unknown", detail: { reason: "unknown_reference", index: 0 } },
            },
          }
        : null,
    );
    const chat = conversation(url);
    chat.accept(await chat.ask());
    const error = await chat.finish({ reward: 1 }).catch((thrown: unknown) => thrown as AgentError);
    expect(error).toMatchObject({
      code: "gateway_refused",
      status: 422,
      detail: { reason: "unknown_reference", index: 0 },
      message: "POST /rollouts/r0/outcome was refused (422): accepted[0] is unknown",
    });
    refuse = false;
    await chat.finish({ reward: 1 });
  });

  test("a failure is told in the agent's words, an undecided answer or not", async () => {
    const { url, received } = await gateway();
    const chat = conversation(url);
    await chat.ask();
    await chat.fail("the tool broke", { groupId: "g" });
    expect(received.at(-1)?.body).toEqual({ failed: "the tool broke", group_id: "g" });
    expect(await codeOf(() => chat.ask())).toBe("finished");
  });

  test("a rollout is opened with its group, in the wire's names", async () => {
    const { url, received } = await gateway();
    await openRollout(
      "r/0",
      { groupId: "g", groupSize: 2, generationIndex: 1, deadlineS: 60 },
      { gatewayUrl: `${url}/` },
    );
    expect(received[0]).toMatchObject({
      method: "PUT",
      path: "/rollouts/r%2F0",
      body: { group_id: "g", group_size: 2, generation_index: 1, deadline_s: 60 },
    });
  });

  test("a gateway that is not there or answers with no JSON is a clear error", async () => {
    const { url } = await gateway(() => ({ status: 502, text: "<html>bad" }));
    await expect(postOutcome("r0", {}, { gatewayUrl: url })).rejects.toThrow(/refused \(502\): <html>bad/);
    const gone = await gateway();
    await gone.close();
    await expect(postOutcome("r0", {}, { gatewayUrl: gone.url })).rejects.toMatchObject({
      code: "gateway_unreachable",
      message: expect.stringContaining("ECONNREFUSED") as string,
    });
  });

  test("the gateway's address is the client's base URL without rollout and version", async () => {
    const { url, received } = await gateway();
    for (const baseURL of [`${url}/r/r0/v1`, `${url}/r/r0/a/sub/v1/`, `${url}/v1`, url]) {
      const chat = conversation(url, { client: new OpenAI({ baseURL, apiKey: "k", maxRetries: 0 }) });
      await chat.finish({ reward: 0 });
    }
    expect(received.map(({ path }) => path)).toEqual(Array(4).fill("/rollouts/r0/outcome"));
  });
});
