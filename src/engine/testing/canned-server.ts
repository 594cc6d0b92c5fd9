// A server that gives each request the same bytes, for answers that no engine at hand gives.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Canned {
  readonly url: string;
  /** JSON bodies of the requests that came. */
  readonly bodies: readonly Record<string, unknown>[];
  close(): Promise<void>;
}

export async function startCanned(answer: {
  readonly status?: number;
  readonly contentType: string;
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}): Promise<Canned> {
  const bodies: Record<string, unknown>[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (piece: string) => (text += piece));
    request.once("end", () => {
      if (text !== "") bodies.push(JSON.parse(text) as Record<string, unknown>);
      response.writeHead(answer.status ?? 200, { "content-type": answer.contentType, ...answer.headers });
      response.end(answer.body);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
