// A client that can do what well-behaved ones do not: leave in the middle, read nothing, read byte by byte.
import { connect, type Socket } from "node:net";
import { once } from "node:events";

export interface RawCall {
  readonly socket: Socket;
  /** All that came so far. */
  received(): string;
  /** Resolves once the text has come. */
  until(text: string): Promise<void>;
  /** Resolves at the connection's end. */
  readonly closed: Promise<void>;
  /** Leaves without a word. */
  leave(): void;
}

/** Posts a JSON body over a connection of its own. */
export async function rawPost(
  url: string,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawCall> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.setNoDelay(true);
  const text = JSON.stringify(body);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\n${lines.join("")}\r\n${text}`,
  );
  return watch(socket);
}

function watch(socket: Socket): RawCall {
  let received = "";
  const waiting = new Set<() => void>();
  socket.on("data", (bytes: Buffer) => {
    received += bytes.toString("utf8");
    for (const look of waiting) look();
  });
  socket.on("error", () => socket.destroy());
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  return {
    socket,
    received: () => received,
    until: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!received.includes(text)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        void closed.then(() =>
          reject(new Error(`the connection ended before ${JSON.stringify(text)} came: ${received}`)),
        );
        look();
      }),
    closed,
    leave: () => socket.destroy(),
  };
}
