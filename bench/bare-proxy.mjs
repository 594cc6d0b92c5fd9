// The floor for a gateway in Node: pipes bytes both ways, parses nothing, records nothing.
//   node bench/bare-proxy.mjs PORT ENGINE_PORT
import http from "node:http";

const [port, enginePort] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });

const server = http.createServer((request, response) => {
  const path = request.url.replace(/^\/r\/[^/]+/, "");
  const headers = { "content-type": "application/json", "content-length": request.headers["content-length"] };
  const asked = http.request(
    { host: "127.0.0.1", port: enginePort, path, method: request.method, agent, headers },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    },
  );
  asked.on("error", () => response.writeHead(502).end());
  request.pipe(asked);
});
server.keepAliveTimeout = 75_000;
server.listen(port, "127.0.0.1", () => process.stdout.write("ready\n"));
