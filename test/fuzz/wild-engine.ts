// An engine's server whose answers are spoilt on their way: bytes changed, taken out, doubled or cut, statuses and
// content types exchanged, pieces of any size. In front of the stand-in, by the dice; one answer in three is left alone.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Agent, request as ask } from "undici";
import { mutateBytes, type Dice } from "./mutate.ts";

export interface WildEngine {
  readonly url: string;
  /** Answers that were spoilt. */
  readonly spoilt: number;
  /** From here on answers are spoilt; until then all are left alone. */
  begin(): void;
  close(): Promise<void>;
}

export async function startWildEngine(behind: string, dice: Dice): Promise<WildEngine> {
  const pool = new Agent({ connections: 64 });
  let spoilt = 0;
  let began = false;
  const server = createServer((request, response) => {
    response.on("error", () => response.destroy());
    void answer(request, response).catch(() => response.destroy());
  });
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const asked = await ask(behind + (request.url as string), {
      dispatcher: pool,
      method: request.method as "POST",
      headers: { "content-type": "application/json" },
      ...(pieces.length === 0 ? {} : { body: Buffer.concat(pieces) }),
    });
    const bytes = Buffer.from(await asked.body.arrayBuffer());
    const type = String(asked.headers["content-type"]);
    if (!began || request.method === "GET" || dice.oneIn(3)) {
      response.writeHead(asked.statusCode, { "content-type": type }).end(bytes);
      return;
    }
    spoilt += 1;
    await writeSpoilt(response, bytes, { status: asked.statusCode, type, dice });
  }
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get spoilt() {
      return spoilt;
    },
    begin: () => {
      began = true;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await pool.destroy();
    },
  };
}

async function writeSpoilt(
  response: ServerResponse,
  bytes: Buffer,
  given: { readonly status: number; readonly type: string; readonly dice: Dice },
): Promise<void> {
  const { dice } = given;
  // No 404: one of them closes the token-in way for the rest of the run.
  const status = dice.oneIn(40) ? dice.pick([200, 204, 400, 429, 500, 503]) : given.status;
  const type = dice.oneIn(20)
    ? dice.pick(["text/html", "text/event-stream", "application/json", ""])
    : given.type;
  const mutated = dice.oneIn(4) ? bytes : mutateBytes(bytes, dice);
  response.writeHead(status, { "content-type": type });
  const size = 1 + dice.below(mutated.length + 1);
  for (let at = 0; at < mutated.length; at += size) {
    response.write(mutated.subarray(at, at + size));
    // The next piece comes in a packet of its own.
    if (dice.oneIn(4)) await new Promise((resolve) => setImmediate(resolve));
  }
  if (dice.oneIn(10)) response.destroy();
  else response.end();
}
