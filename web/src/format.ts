// Numbers and times as the page writes them.
import { IN_FLIGHT, UNTIMED } from "../../src/page/view.ts";

const COUNT = new Intl.NumberFormat("en-US");

export function count(value: number): string {
  return COUNT.format(value);
}

export function counted(value: number, one: string, many: string = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** With a sign, at most three decimals. */
export function signed(value: number | null): string {
  if (value === null) return "–";
  const text = trimmed(Math.abs(value));
  if (Number(text) === 0) return "0";
  return value < 0 ? `−${text}` : `+${text}`;
}

export function decimal(value: number | null): string {
  if (value === null) return "–";
  return value < 0 ? `−${trimmed(-value)}` : trimmed(value);
}

function trimmed(value: number): string {
  const text = value.toFixed(3).replace(/0+$/, "");
  return text.endsWith(".") ? `${text}0` : text;
}

export function duration(ms: number): string {
  if (ms === IN_FLIGHT) return "in flight";
  if (ms === UNTIMED) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

/** Times of a trace without a clock count from the epoch and say nothing. */
export function clock(at: number): string | null {
  if (at < 86_400_000) return null;
  return new Date(at)
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, " UTC");
}

export function ago(at: number, now: number): string {
  if (at < 86_400_000) return "–";
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function percent(logprob: number): string {
  const value = Math.exp(logprob) * 100;
  return value >= 99.95 ? "100 %" : value >= 1 ? `${value.toFixed(1)} %` : `${value.toPrecision(2)} %`;
}
