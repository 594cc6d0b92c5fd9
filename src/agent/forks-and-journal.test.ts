import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { fileJournal, memoryJournal } from "./journal.ts";
import { codeOf, contents, conversation, gateway, messagesOf } from "./testing/conversations.ts";
import { completion } from "./testing/scripted-gateway.ts";

describe("siblings", () => {
  test("the best of n is kept, the others are rejected and count against nothing", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url, { maxRejections: 0, request: { seed: 4 } });
    const best = await chat.bestOf(3, (answers) => answers.findIndex(({ text }) => text === "a2"), "o1");
    expect(best.text).toBe("a2");
    expect(calls().map(({ body }) => body["seed"])).toEqual([4, 5, 6]);
    expect(chat.rejected.map(({ answer }) => answer.text).sort()).toEqual(["a1", "a3"]);
    expect(contents(chat.history)).toEqual(["sys", "task", "o1", "a2"]);
    chat.accept(await chat.ask("o2"));
    expect(chat.kept).toEqual(["resp-2", "resp-4"]);
  });

  test("a choice that is no index leaves the answers undecided", async () => {
    const { url } = await gateway();
    const chat = conversation(url);
    expect(await codeOf(() => chat.bestOf(2, () => 2))).toBe("invalid_argument");
    expect(chat.undecided).toHaveLength(2);
    expect(await codeOf(() => chat.ask())).toBe("answer_undecided");
  });

  test("where some of the calls fail it is chosen among those that came", async () => {
    const { url } = await gateway((_received, number) =>
      number === 2 ? { status: 500, json: { error: { message: "no" } } } : null,
    );
    const seen: number[] = [];
    const best = await conversation(url).bestOf(3, (answers) => seen.push(answers.length) - 1);
    expect([seen, best.text]).toEqual([[2], "a1"]);
  });
});

describe("going back", () => {
  test("what is asked after it is a child of the earlier answer, and what came between is dropped", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url);
    const first = await chat.ask();
    chat.accept(first);
    chat.accept(await chat.ask("o2"));
    chat.goBack(first, { reason: "dead end" });
    chat.accept(await chat.ask("o3"));
    expect(contents(messagesOf(calls()[2]))).toEqual(["sys", "task", "a1", "o3"]);
    expect(calls()[2]?.headers["x-coppice-parent"]).toBe("resp-1");
    expect(chat.kept).toEqual(["resp-1", "resp-3"]);
    expect(chat.rejected).toMatchObject([{ reason: "dead end", answer: { responseId: "resp-2" } }]);
  });

  test("with keep the branch that is left stays in the outcome", async () => {
    const { url } = await gateway();
    const chat = conversation(url);
    chat.accept(await chat.ask());
    chat.goBack(null, { keep: true });
    chat.accept(await chat.ask());
    expect(chat.kept).toEqual(["resp-1", "resp-2"]);
    expect(contents(chat.history)).toEqual(["sys", "task", "a2"]);
  });

  test("only an accepted answer of this conversation can be gone back to, and nothing may be undecided", async () => {
    const { url } = await gateway();
    const chat = conversation(url);
    const first = await chat.ask();
    expect(await codeOf(() => chat.goBack(null))).toBe("answer_undecided");
    chat.reject(first);
    expect(await codeOf(() => chat.goBack(first))).toBe("foreign_answer");
  });
});

describe("forks", () => {
  test("sub-agents ask side by side under their labels and stand in one outcome", async () => {
    const { url, calls, received } = await gateway();
    const chat = conversation(url);
    chat.accept(await chat.ask());
    const look = chat.fork("look", { task: "look" });
    const write = chat.fork("write", { task: "write" });
    const [one, other] = await Promise.all([look.ask(), write.ask()]);
    write.accept(other);
    look.accept(one);
    chat.accept(await chat.ask("both are done"));
    await chat.finish({ reward: 1 });
    expect(calls().map(({ headers }) => headers["x-coppice-agent"])).toEqual([
      undefined,
      "look",
      "write",
      undefined,
    ]);
    expect(calls().map(({ headers }) => headers["x-coppice-class"])).toEqual([
      undefined,
      "sub_agent",
      "sub_agent",
      undefined,
    ]);
    const accepted = received.at(-1)?.body["accepted"];
    expect(accepted).toEqual(["resp-1", other.responseId, one.responseId, "resp-4"]);
    expect(contents(look.history)).toEqual(["look", one.text]);
  });

  test("a fork without messages of its own goes on from where it was forked, or from an earlier answer", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url);
    const first = await chat.ask();
    chat.accept(first);
    chat.accept(await chat.ask("o2"));
    await chat.fork("here").ask("o3");
    await chat.fork("before", { after: first }).ask("o4");
    expect(contents(messagesOf(calls()[2])).slice(2)).toEqual(["a1", "o2", "a2", "o3"]);
    expect(contents(messagesOf(calls()[3])).slice(2)).toEqual(["a1", "o4"]);
    expect(calls().map(({ headers }) => headers["x-coppice-parent"])).toEqual([
      undefined,
      "resp-1",
      "resp-2",
      "resp-1",
    ]);
  });

  test("a fork that is discarded takes its answers out of the outcome and does no more", async () => {
    const { url } = await gateway();
    const chat = conversation(url);
    const sub = chat.fork("sub", { task: "look" });
    sub.accept(await sub.ask());
    expect(chat.kept).toEqual(["resp-1"]);
    sub.discard("of no use");
    expect(chat.kept).toEqual([]);
    expect(await codeOf(() => sub.ask())).toBe("discarded");
  });

  test("misuse of forks has a code of its own", async () => {
    const { url } = await gateway();
    const chat = conversation(url);
    const sub = chat.fork("sub", { task: "look" });
    expect(await codeOf(() => chat.fork("sub"))).toBe("invalid_argument");
    expect(await codeOf(() => sub.finish({ reward: 1 }))).toBe("not_the_first");
    const answer = await sub.ask();
    expect(await codeOf(() => chat.accept(answer))).toBe("foreign_answer");
    expect(await codeOf(() => chat.finish({ reward: 1 }))).toBe("answer_undecided");
    sub.accept(answer);
    await chat.finish({ reward: 1 });
    expect(await codeOf(() => sub.ask())).toBe("finished");
    expect(await codeOf(() => chat.fork("late"))).toBe("finished");
  });
});

describe("rewards", () => {
  test("partial rewards belong to kept answers, and the rollout's may be added once later", async () => {
    const { url, received } = await gateway();
    const chat = conversation(url);
    const first = await chat.ask();
    expect(await codeOf(() => chat.credit(first, 1))).toBe("invalid_argument");
    chat.accept(first, { reward: 0.25 });
    const second = await chat.ask("o");
    chat.accept(second);
    chat.credit(second, 0.5);
    chat.credit(first, 1);
    expect(chat.rewards).toEqual({ "resp-1": 1, "resp-2": 0.5 });
    chat.goBack(first);
    expect(chat.rewards).toEqual({ "resp-1": 1 });
    expect(await codeOf(() => chat.addReward(1))).toBe("not_finished");
    await chat.finish();
    await chat.addReward(0.75);
    expect(received.at(-1)?.body).toEqual({ reward: 0.75 });
  });
});

describe("the journal", () => {
  async function file(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "coppice-journal-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    return join(folder, "r0.journal");
  }

  test("an agent that dies goes on where it was: history, forks, rejections, the undecided answer", async () => {
    const path = await file();
    const { url, calls, received } = await gateway();
    const before = conversation(url, { journal: fileJournal(path) });
    before.accept(await before.ask(), { reward: 0.5 });
    const sub = before.fork("sub", { task: "look" });
    sub.accept(await sub.ask());
    before.reject(await before.ask("o2"), "short");
    const undecided = await before.ask();
    // A crash in the middle of writing.
    await appendFile(path, '{"type":"accepted","agent":"","respon');

    const after = conversation(url, { journal: fileJournal(path) });
    expect(after.undecided.map(({ responseId }) => responseId)).toEqual([undecided.responseId]);
    expect(after.rejected.map(({ reason }) => reason)).toEqual(["short"]);
    const again = after.undecided[0];
    if (again === undefined) throw new Error("nothing is undecided");
    after.reject(again);
    after.accept(await after.ask());
    const resumed = after.fork("sub", { task: "look" });
    expect(resumed.accepted).toHaveLength(1);
    await after.finish({ reward: 1 });
    expect(contents(messagesOf(calls()[4]))).toEqual(contents(messagesOf(calls()[2])));
    expect(received.at(-1)?.body["accepted"]).toEqual(["resp-1", "resp-2", "resp-5"]);
    expect(after.rewards).toEqual({ "resp-1": 0.5 });
    expect(await readFile(path, "utf8")).not.toContain('"respon{');

    const late = conversation(url, { journal: fileJournal(path) });
    expect(await codeOf(() => late.ask())).toBe("finished");
  });

  test("it holds each message once, whatever the length of the views", async () => {
    const journal = memoryJournal();
    const { url } = await gateway();
    const chat = conversation(url, { journal });
    for (let action = 0; action < 20; action++) chat.accept(await chat.ask(`observation-${action}`));
    const text = journal.written.join("\n");
    expect(text.split('observation-3"').length - 1).toBe(1);
    expect(text.length).toBeLessThan(20 * 700);
  });

  test("a journal of another rollout or of another beginning, or one that is damaged, is refused", async () => {
    const journal = memoryJournal();
    const { url } = await gateway();
    const chat = conversation(url, { journal });
    chat.accept(await chat.ask());
    const { written } = journal;
    const open = (options: object, lines: readonly string[] = written): Promise<string> =>
      codeOf(() => conversation(url, { journal: memoryJournal(lines), ...options }));
    expect(await open({ rolloutId: "r1" })).toBe("invalid_journal");
    expect(await open({ task: "another" })).toBe("invalid_journal");
    expect(await open({}, ["{", ...written])).toBe("invalid_journal");
    expect(await open({}, written.slice(1))).toBe("invalid_journal");
    expect(await open({})).toBe("nothing was thrown");
  });
});

describe("reasoning", () => {
  test("is sent back as it came, or left out of history where it is to be dropped", async () => {
    const { url, calls } = await gateway((received, number) =>
      received.path.endsWith("completions")
        ? { json: completion(number, { reasoning: "hm", reasoning_content: "hm" }) }
        : null,
    );
    const chat = conversation(url, { reasoning: "drop" });
    const answer = await chat.ask();
    expect(answer.message).toMatchObject({ reasoning: "hm" });
    chat.accept(answer);
    await chat.ask("o");
    expect(messagesOf(calls()[1])[2]).toEqual({ role: "assistant", content: "a1" });
    expect(calls()[1]?.headers["x-coppice-parent"]).toBe("resp-1");
  });
});
