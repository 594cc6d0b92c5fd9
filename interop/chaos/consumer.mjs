// A consumer: claims, writes the rows to its file with a sync, acknowledges. It keeps nothing else, so it can be killed at
// any moment. Usage: node consumer.mjs FILE GATEWAY...
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

const [path, ...gateways] = process.argv.slice(2);
const file = openSync(path, "a");
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const anyGateway = () => gateways[Math.floor(Math.random() * gateways.length)];

/** Null where the gateway is away. */
async function ask(method, path, body) {
  try {
    const response = await fetch(anyGateway() + path, {
      method,
      ...(body === undefined
        ? {}
        : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    return { status: response.status, text: await response.text() };
  } catch {
    return null;
  }
}

function keep(record) {
  writeSync(file, `${JSON.stringify(record)}\n`);
  fsyncSync(file);
}

async function deliver({ claim_id: claim, group_id: group }) {
  for (;;) {
    const rows = await ask("GET", `/claims/${claim}/rows`);
    if (rows?.status === 409 || rows?.status === 404) return;
    if (rows?.status !== 200) {
      await pause(100);
      continue;
    }
    const lines = rows.text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line));
    keep({
      claim,
      group,
      marked: lines.every((line) => line.claim_id === claim),
      calls: lines.flatMap((line) => line.call_ids ?? []),
      failures: lines.filter((line) => line.type === "failure").map((line) => line.reason),
    });
    break;
  }
  // What it does with the rows; who is killed in here has delivered and not acknowledged.
  await pause(Math.random() * 1000);
  for (;;) {
    const answer = await ask("POST", `/claims/${claim}/ack`);
    if (answer !== null && [200, 404, 409].includes(answer.status)) {
      keep({ claim, group, acknowledged: answer.status });
      return;
    }
    await pause(100);
  }
}

process.on("SIGTERM", () => {
  closeSync(file);
  process.exit(0);
});
for (;;) {
  const answer = await ask("POST", "/claims", { consumer: `consumer ${process.pid}`, lease_s: 6 });
  const claim = answer?.status === 200 ? JSON.parse(answer.text).claim : null;
  if (claim === null) await pause(200);
  else await deliver(claim);
}
