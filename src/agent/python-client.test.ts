// The Python client of one file (interop/python/coppice.py) over the real gateway, where a Python 3 is at hand.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startUnderTest } from "../gateway/testing/gateway-under-test.ts";

const FOLDER = fileURLToPath(new URL("../../interop/python", import.meta.url));

const AGENT = `
import json, urllib.request
from coppice import CoppiceError, Rollout, accepted_of

rollout = Rollout(group_id="g", group_size=1, generation_index=0)

def ask(messages):
    body = json.dumps({"model": "policy", "max_tokens": 3, "messages": messages}).encode()
    request = urllib.request.Request(rollout.base_url + "/chat/completions", data=body,
        headers={"content-type": "application/json", "authorization": "Bearer " + rollout.key})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())

messages = [{"role": "user", "content": "t1"}]
rollout.reject(ask(messages)["id"])
answer = ask(messages)
rollout.accept(answer["id"])
try:
    rollout.reject(answer["id"])
except CoppiceError as error:
    print(error)
messages += [answer["choices"][0]["message"]]
try:
    rollout.finish(1.0, final="nobody")
except CoppiceError as error:
    print(error.status, error.detail["reason"])
sealed = rollout.finish()
print(sealed["state"], rollout.add_reward(0.5)["outcome"]["reward"])
print(sum(row["row_trainable_tokens"] for row in rollout.rows()), len(accepted_of(messages)))
`;

test("a Python agent opens, rejects, accepts, is corrected, finishes and reads its rows", async () => {
  const under = await startUnderTest();
  const env = { ...process.env, PYTHONPATH: FOLDER, COPPICE_GATEWAY: under.url, COPPICE_ROLLOUT: "r0" };
  const { stdout } = await promisify(execFile)("python3", ["-c", AGENT], { env, timeout: 20_000 });
  const lines = stdout.trim().split("\n");
  expect(lines[0]).toMatch(/was accepted before; it cannot be rejected now/);
  expect(lines.slice(1)).toEqual(["422 unknown_reference", "sealed 0.5", "3 1"]);
});
