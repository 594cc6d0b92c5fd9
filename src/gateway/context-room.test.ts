import { describe, expect, test } from "vitest";
import { CoppiceError } from "../errors.ts";
import { clampLengths, contextRoom } from "./context-room.ts";
import { errorOf, startUnderTest } from "./testing/gateway-under-test.ts";

const refused = (message: string): CoppiceError => new CoppiceError("engine_error", message, { status: 400 });

describe("the room that an engine says is left", () => {
  test.each([
    [
      "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens " +
        "and your request has 24 input tokens (32000 > 8192 - 24).",
      8168,
    ],
    [
      "This model's maximum context length is 4096 tokens. However, you requested 4110 tokens (10 in the messages, " +
        "4100 in the completion). Please reduce the length of the messages or completion.",
      4086,
    ],
    [
      "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 " +
        "tokens: 900 tokens from the input messages and 4100 tokens for the completion.",
      3196,
    ],
    ["This model's maximum context length is 10 tokens and your request has 10 input tokens", null],
    ["the prompt is too long", null],
  ])("is read out of its refusal: %s", (message, room) => {
    expect(contextRoom(refused(message))).toBe(room);
  });

  test("is nothing of another status, or of another error", () => {
    expect(
      contextRoom(new Error("maximum context length is 9 tokens and your request has 1 input tokens")),
    ).toBeNull();
  });

  test("brings down both names of the limit, and leaves what fits", () => {
    const body = { max_tokens: 32_000, max_completion_tokens: 5, temperature: 1 };
    expect(clampLengths(body, 10, "why")).toEqual({
      body: { max_tokens: 10, max_completion_tokens: 5, temperature: 1 },
      used: { max_tokens: 10 },
      notes: ["clamped: max_tokens from 32000 to 10, why"],
    });
    expect(clampLengths({ max_tokens: 10 }, 10, "why").notes).toEqual([]);
  });
});

describe("a limit past the engine's context", () => {
  test("is brought down before the engine is asked; what was asked and used is recorded", async () => {
    const under = await startUnderTest({ standIn: { maxModelLength: 50 } });
    const answered = await under.chat("r1", "t1 t2", { max_tokens: 32_000 });
    expect(answered.status).toBe(200);
    const [call] = await under.calls("r1");
    expect(call?.sampling).toEqual({ asked: { max_tokens: 32_000 }, used: { max_tokens: 49 } });
    expect(call?.notes).toEqual(["clamped: max_tokens from 32000 to 49, the engine's context is 50 tokens"]);
  });

  test("that only the prompt makes too large is brought down after the engine has told its numbers", async () => {
    const message =
      "'max_tokens' or 'max_completion_tokens' is too large: 40. This model's maximum context length is 50 tokens and " +
      "your request has 20 input tokens (40 > 50 - 20).";
    const under = await startUnderTest({
      standIn: {
        maxModelLength: 50,
        script: (request) =>
          Number(request.body?.["max_completion_tokens"]) > 30
            ? { kind: "status", status: 400, message }
            : null,
      },
    });
    const answered = await under.chat("r1", "t1 t2", { max_completion_tokens: 40 });
    expect(answered.status).toBe(200);
    const [call, ...more] = await under.calls("r1");
    expect(more).toEqual([]);
    expect(call?.sampling.used).toEqual({ max_completion_tokens: 30 });
    expect(call?.notes[0]).toContain("clamped: max_completion_tokens from 40 to 30");
  });

  test("of a prompt that leaves no room is the engine's own 400", async () => {
    const under = await startUnderTest({ standIn: { maxModelLength: 5 } });
    const answered = await under.chat("r1", "t1 t2 t3 t4 t5 t6 t7", { max_tokens: 32_000 });
    expect(answered.status).toBe(400);
    expect(errorOf(answered)["message"]).toMatch(/maximum context length is 5 tokens/);
  });
});
