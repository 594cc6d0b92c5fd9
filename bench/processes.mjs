// Processes that benchmarks start, watch and stop: the subject in one, the load in another, so that their CPU is told apart.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";

const TICK_MS = 10;
const children = [];

export const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** Starts a process and resolves with it at its first line. */
export function start(args) {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  return new Promise((resolve, reject) => {
    child.stdout.once("data", () => resolve(child));
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}`)));
  });
}

export function run(args) {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (part) => (text += part));
  return new Promise((resolve, reject) => {
    child.once("exit", (code) =>
      code === 0 ? resolve(JSON.parse(text)) : reject(new Error(`${args[0]}: ${code}`)),
    );
  });
}

/** User and system time of a process so far, all its threads. */
export function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Resident memory of a process in MiB. */
export function residentMib(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

export function stopAll() {
  for (const child of children) child.kill();
}
