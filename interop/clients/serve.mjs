// A gateway with the stand-in behind it, for clients in other languages. Prints one JSON line with both addresses when
// ready and ends when its standard input does. The stand-in answers `two tools` with reasoning, text and two tool calls,
// and says that it is done once it sees their results; faults are asked for by its markers.
const dist = process.env.DIST;
if (dist === undefined) throw new Error("DIST must name a build of Coppice");
const { startStandIn } = await import(`${dist}/engine/stand-in.js`);
const { vllmEngine } = await import(`${dist}/engine/vllm.js`);
const { openSqliteLedger } = await import(`${dist}/ledger/sqlite-ledger.js`);
const { startGateway } = await import(`${dist}/gateway/server.js`);

const TWO_TOOLS = {
  reasoning: "let me think",
  content: "I look 世界",
  toolCalls: [
    { id: "call-a", name: "read", arguments: '{"path":  "a.txt", "n": 1.0}' },
    { id: "call-b", name: "list", arguments: "{}" },
  ],
};

const standIn = await startStandIn({
  template: "chatml",
  script: ({ body }) => {
    const text = JSON.stringify(body);
    if (!text.includes("two tools")) return [];
    return { kind: "answer", answer: text.includes('"role":"tool"') ? { content: "all done" } : TWO_TOOLS };
  },
});
const engine = vllmEngine({ url: standIn.url, kind: "stand-in" });
const ledger = await openSqliteLedger(":memory:");
const gateway = await startGateway({
  host: "127.0.0.1",
  port: 0,
  engine,
  ledger,
  way: "text",
  log: () => undefined,
});
process.stdout.write(`${JSON.stringify({ gateway: gateway.url, engine: standIn.url })}\n`);

// The end of standard input is the sign to stop.
for await (const _ of process.stdin);
await gateway.close();
await engine.close();
await standIn.close();
await ledger.close();
