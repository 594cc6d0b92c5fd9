import { describe, expect, test } from "vitest";
import { Counter, Gauge, Histogram, metricsText } from "./metrics.ts";

describe("metrics", () => {
  test("counters add up by label, and label values are escaped", () => {
    const counter = new Counter("calls_total", "Calls.", ["way", "status"]);
    counter.add({ way: "text", status: "committed" });
    counter.add({ status: "committed", way: "text" }, 2);
    counter.add({ way: 'a"b\\c\nd', status: "x" });
    expect(metricsText([counter])).toBe(
      '# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{way="text",status="committed"} 3\n' +
        'calls_total{way="a\\"b\\\\c\\nd",status="x"} 1\n',
    );
  });

  test("a counter without labels is there from the start", () => {
    expect(metricsText([new Counter("lost_total", "Lost.")])).toContain("lost_total 0\n");
  });

  test("gauges are read when they are asked for", () => {
    let value = 1;
    const gauge = new Gauge("open", "Open.", () => value);
    value = 7;
    expect(metricsText([gauge])).toContain("open 7\n");
  });

  test("histogram buckets hold all that is not above their bound", () => {
    const histogram = new Histogram("seconds", "Seconds.", [0.1, 1]);
    for (const value of [0.05, 0.1, 0.5, 1, 3]) histogram.observe(value);
    const lines = metricsText([histogram]).split("\n").slice(2);
    expect(lines).toEqual([
      'seconds_bucket{le="0.1"} 2',
      'seconds_bucket{le="1"} 4',
      'seconds_bucket{le="+Inf"} 5',
      "seconds_sum 4.65",
      "seconds_count 5",
      "",
    ]);
  });
});
