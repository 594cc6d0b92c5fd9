// Counters, gauges and histograms in Prometheus' text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). Label values come from closed sets: an id or a
// name that clients choose would make a series each. What is counted is in gateway-metrics.ts.

interface Series {
  readonly name: string;
  lines(): Iterable<string>;
}

export class Counter<Label extends string = never> implements Series {
  readonly name: string;
  readonly #help: string;
  readonly #labels: readonly Label[];
  readonly #values = new Map<string, number>();

  constructor(name: string, help: string, labels: readonly Label[] = []) {
    this.name = name;
    this.#help = help;
    this.#labels = labels;
    if (labels.length === 0) this.#values.set("", 0);
  }

  /** Adds one, or `by`. */
  add(labels: Readonly<Record<Label, string>>, by = 1): void {
    const key = labelText(this.#labels.map((label) => [label, labels[label]]));
    this.#values.set(key, (this.#values.get(key) ?? 0) + by);
  }

  *lines(): Iterable<string> {
    yield* heading(this.name, this.#help, "counter");
    for (const [labels, value] of this.#values) yield `${this.name}${labels} ${value}`;
  }
}

/** A value that is read when the metrics are. */
export class Gauge implements Series {
  readonly name: string;
  readonly #help: string;
  readonly #read: () => number;

  constructor(name: string, help: string, read: () => number) {
    this.name = name;
    this.#help = help;
    this.#read = read;
  }

  *lines(): Iterable<string> {
    yield* heading(this.name, this.#help, "gauge");
    yield `${this.name} ${this.#read()}`;
  }
}

export class Histogram implements Series {
  readonly name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds upper bounds of the buckets, ascending; `+Inf` is added */
  constructor(name: string, help: string, bounds: readonly number[]) {
    this.name = name;
    this.#help = help;
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    const at = bucket < 0 ? this.#bounds.length : bucket;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += value;
  }

  *lines(): Iterable<string> {
    yield* heading(this.name, this.#help, "histogram");
    let below = 0;
    for (const [at, count] of this.#counts.entries()) {
      below += count;
      yield `${this.name}_bucket{le="${this.#bounds[at] ?? "+Inf"}"} ${below}`;
    }
    yield `${this.name}_sum ${this.#sum}`;
    yield `${this.name}_count ${below}`;
  }
}

/** All series as one text, in the order given. */
export function metricsText(series: Iterable<Series>): string {
  let text = "";
  for (const one of series) for (const line of one.lines()) text += `${line}\n`;
  return text;
}

function heading(name: string, help: string, type: string): [string, string] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function labelText(labels: readonly (readonly [string, string])[]): string {
  if (labels.length === 0) return "";
  const escape = (value: string): string =>
    value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  return `{${labels.map(([name, value]) => `${name}="${escape(value)}"`).join(",")}}`;
}
