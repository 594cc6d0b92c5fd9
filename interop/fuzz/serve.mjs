// `coppice serve` with the stand-in behind it, for the fuzz. Prints one JSON line with the address when ready and ends when
// its standard input does. What the gateway logs goes to the file that LOG names: a 500 has its reason there.
import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";

const { DIST: dist, LOG: log, OPERATOR_KEY: operatorKey, LEDGER: ledger } = process.env;
for (const [name, value] of Object.entries({
  DIST: dist,
  LOG: log,
  OPERATOR_KEY: operatorKey,
  LEDGER: ledger,
})) {
  if (value === undefined) throw new Error(`${name} must be set`);
}
const { startStandIn } = await import(`${dist}/engine/stand-in.js`);
const standIn = await startStandIn({ template: "chatml" });
const serve = spawn(
  process.execPath,
  [
    `${dist}/cli/main.js`,
    "serve",
    "--engine",
    standIn.url,
    "--ledger",
    ledger,
    "--port",
    "0",
    "--allow-uncaptured",
  ],
  { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, COPPICE_OPERATOR_KEY: operatorKey } },
);
serve.stderr.pipe(createWriteStream(log));
createInterface({ input: serve.stdout }).once("line", (line) => {
  const url = /http:\/\/[\d.]+:\d+/.exec(line)?.[0];
  process.stdout.write(`${JSON.stringify({ url })}\n`);
});
serve.once("exit", (code) => {
  process.exitCode = code ?? 1;
  void standIn.close();
  process.stdin.destroy();
});
process.stdin.resume().once("end", () => serve.kill("SIGTERM"));
