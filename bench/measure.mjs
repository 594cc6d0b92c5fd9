// Shared by the benchmarks: interleaved timing with spread, so that a ratio survives a noisy machine.
import { cpus, totalmem } from "node:os";

/** Median, minimum and maximum of numbers. */
export function spread(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return { median: sorted[Math.floor(sorted.length / 2)], min: sorted[0], max: sorted.at(-1) };
}

/**
 * Times each of `subjects` (name to function) in turn, `rounds` times over, each long enough to be read off the clock.
 * Milliseconds per run; ratios to the first subject are taken round by round, so that drift of the machine cancels.
 */
export async function interleave(subjects, { rounds = 9, minMs = 30 } = {}) {
  const names = Object.keys(subjects);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  for (const name of names) await subjects[name]();
  for (let round = 0; round < rounds; round++) {
    for (const name of names) {
      let runs = 0;
      const start = performance.now();
      do {
        await subjects[name]();
        runs += 1;
      } while (performance.now() - start < minMs);
      times[name].push((performance.now() - start) / runs);
    }
  }
  const base = times[names[0]];
  return Object.fromEntries(
    names.map((name) => [
      name,
      { ms: spread(times[name]), ratio: spread(times[name].map((time, round) => time / base[round])) },
    ]),
  );
}

export function machine() {
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memory_gib: Math.round(totalmem() / 2 ** 30),
    node: process.version,
  };
}

export function round(value, digits = 3) {
  return Number(value.toPrecision(digits));
}

export function show(name, { ms, ratio }) {
  const range = (values) => `${round(values.median)} (${round(values.min)} to ${round(values.max)})`;
  process.stderr.write(`${name.padEnd(44)} ${range(ms).padEnd(30)} ms   ratio ${range(ratio)}\n`);
}
