import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CoppiceError } from "../errors.ts";
import { parseEngineJson } from "./engine-json.ts";

function parse(text: string): unknown {
  return parseEngineJson(text, "the answer");
}

describe("the JSON of engines", () => {
  it("reads bare NaN, Infinity and -Infinity among log-probs (sglang 5984)", () => {
    expect(parse('{"a":NaN,"b":Infinity,"c":-Infinity,"d":[NaN, -Infinity],"e":-9999.0,"f":null}')).toEqual({
      a: null,
      b: Infinity,
      c: -Infinity,
      d: [null, -Infinity],
      e: -9999,
      f: null,
    });
  });

  it("leaves the same words alone inside strings, quotes and backslashes included", () => {
    const text = String.raw`{"NaN":"NaN","b":"a \" NaN \\","c":NaN,"d":"\\\" -Infinity, \\\\","e":"Infinity"}`;
    expect(parse(text)).toEqual({
      NaN: "NaN",
      b: 'a " NaN \\',
      c: null,
      d: '\\" -Infinity, \\\\',
      e: "Infinity",
    });
  });

  it("reads any JSON value as JSON.parse does, and any with numbers made bare", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(parse(text)).toEqual(JSON.parse(text));
        expect(parse(`{"x":NaN,"value":${text},"y":-Infinity}`)).toEqual({
          x: null,
          value: JSON.parse(text) as unknown,
          y: -Infinity,
        });
      }),
    );
  });

  it.each([
    [
      "<html><body>Bad gateway</body></html>",
      'has 37 characters and begins "<html><body>Bad gateway</body></html>"',
    ],
    ['{"choices":[{"index":0', "the answer is not JSON"],
    ['{"a":NaN,"b":nonsense}', "the answer is not JSON"],
    ['{"a":1NaN}', "the answer is not JSON"],
    ['{"a":NaNs}', "the answer is not JSON"],
    ['{"a":"NaN}', "the answer is not JSON"],
    ["", 'has 0 characters and begins ""'],
  ])("refuses %j and says what it was reading and how it begins", (text, message) => {
    expect(() => parse(text)).toThrow(CoppiceError);
    expect(() => parse(text)).toThrow(message);
  });

  it("stays fast on a long text with one bare word at its end", () => {
    const text = `{"text":"${'\\" '.repeat(500_000)}","logprob":NaN}`;
    const started = performance.now();
    expect(parse(text)).toMatchObject({ logprob: null });
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});
