// The check on a number that a caller gives.
import { AgentError } from "./agent-error.ts";

export function wholeFromOne(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new AgentError("invalid_argument", `${name} got ${value}; it must be a whole number from 1 up`);
}

export function wholeFromZero(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new AgentError("invalid_argument", `${name} got ${value}; it must be a whole number from 0 up`);
}
