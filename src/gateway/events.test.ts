import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { EventHub } from "./events.ts";

/** A client that reads only when it is told to. */
class SlowReader extends EventEmitter {
  readonly written: string[] = [];
  reads = false;

  writeHead(): void {
    this.written.length = 0;
  }

  write(text: string): boolean {
    this.written.push(text);
    return this.reads;
  }

  end(): void {
    this.emit("close");
  }

  events(): string[] {
    return this.written.flatMap((text) => /^event: (\w+)/.exec(text)?.[1] ?? []);
  }
}

function listening(hub: EventHub): SlowReader {
  const reader = new SlowReader();
  hub.listen(reader as unknown as ServerResponse);
  return reader;
}

describe("live events", () => {
  test("are not even made where nobody listens", () => {
    const hub = new EventHub();
    hub.publish("weights_set", () => {
      throw new Error("made");
    });
    const reader = listening(hub);
    reader.end();
    hub.publish("weights_set", () => {
      throw new Error("made");
    });
  });

  test("wait in bounds for a slow listener, who is told how many it missed", () => {
    const hub = new EventHub(3);
    const slow = listening(hub);
    const quick = listening(hub);
    quick.reads = true;
    quick.emit("drain");
    for (let at = 0; at < 10; at++) hub.publish("weights_set", () => ({ version: String(at) }));
    expect(quick.events()).toHaveLength(10);
    // One was written and filled the buffer, three wait, six are lost.
    expect(slow.events()).toHaveLength(1);
    slow.reads = true;
    slow.emit("drain");
    expect(slow.events()).toEqual([...Array.from({ length: 4 }, () => "weights_set"), "missed"]);
    expect(slow.written.at(-1)).toContain('"count":6');
    hub.close();
  });

  test("go on in order while a listener drains bit by bit", () => {
    const hub = new EventHub(10);
    const slow = listening(hub);
    for (let at = 0; at < 5; at++) hub.publish("weights_set", () => ({ version: String(at) }));
    for (let at = 0; at < 5; at++) slow.emit("drain");
    const versions = slow.written.flatMap((text) => /"version":"(\d)"/.exec(text)?.[1] ?? []);
    expect(versions).toEqual(["0", "1", "2", "3", "4"]);
    hub.close();
  });
});
