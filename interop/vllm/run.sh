#!/usr/bin/env bash
# The main job on a real engine with a real model: vLLM on the CPU with SmolLM2-135M-Instruct, the demo agent in both
# modes, and every trained token's log-prob asked again; then 40 conversations of 6 turns at temperature 1.3 asked
# token-in, and the same asked with messages, a change of weights in the middle of an answer, and a conversation with
# tools. Installs what it needs (5.6 GB, minutes) under COPPICE_INTEROP, starts and stops the engine itself, and ends with
# one JSON line. Exits 0 only where rows came out of both modes, every token-in conversation stayed one tree, and no
# log-prob is off by more than 1e-4. CONVERSATIONS=N plays fewer.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
CACHE=${COPPICE_INTEROP:-$HOME/.cache/coppice-interop}
OUT=${OUT:-$(mktemp -d)}
TOLERANCE=1e-4
mkdir -p "$CACHE" "$OUT"
cd "$ROOT"
[ -d node_modules ] || npm ci >&2
npm run --silent build >&2
"$HERE/../engines/vllm-setup.sh" "$CACHE/vllm" >&2

PORT=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
"$HERE/../engines/vllm-serve.sh" "$CACHE/vllm" "$PORT" --chat-template "$HERE/chatml-tools.jinja" >"$OUT/vllm.log" 2>&1 &
ENGINE=$!
# While it loads, vLLM may lose a signal: it is repeated until the process is gone.
GATEWAYS=()
stop() {
  for gateway in "${GATEWAYS[@]}"; do
    kill "$gateway" 2>/dev/null || true
    wait "$gateway" 2>/dev/null || true
  done
  for _ in $(seq 30); do
    kill "$ENGINE" 2>/dev/null || break
    sleep 1
  done
  wait "$ENGINE" 2>/dev/null || true
}
trap stop EXIT
URL=http://127.0.0.1:$PORT
for i in $(seq 300); do
  kill -0 "$ENGINE" 2>/dev/null || { tail -20 "$OUT/vllm.log" >&2; echo "vLLM ended while starting" >&2; exit 1; }
  curl -sf -m 2 "$URL/health" >/dev/null && break
  [ "$i" = 300 ] && { echo "vLLM did not start in 300 s" >&2; exit 1; }
  sleep 1
done

coppice() { node "$ROOT/dist/cli/main.js" "$@"; }
coppice demo --engine "$URL" --model smollm2 --out "$OUT" >&2
coppice verify --ledger "$OUT/off.ledger.db" --rescore --engine "$URL" --tolerance "$TOLERANCE" --json >"$OUT/off.verify.json" || true
coppice verify --ledger "$OUT/on.ledger.db" --rescore --engine "$URL" --tolerance "$TOLERANCE" --json >"$OUT/on.verify.json" || true

# A gateway per way, on one engine. Sets GATEWAY.
gateway() { # gateway WAY
  : >"$OUT/$1.log"
  node "$ROOT/dist/cli/main.js" serve --engine "$URL" --way "$1" --ledger "$OUT/$1.ledger.db" --port 0 \
    >"$OUT/$1.log" 2>"$OUT/$1.err" &
  GATEWAYS+=($!)
  for i in $(seq 120); do
    GATEWAY=$(sed -n 's/^coppice listens on \(http[^ ]*\).*/\1/p' "$OUT/$1.log")
    [ -n "$GATEWAY" ] && return
    [ "$i" = 120 ] && { cat "$OUT/$1.err" >&2; echo "the gateway did not start in 60 s" >&2; exit 1; }
    sleep 0.5
  done
}
coppice doctor --engine "$URL" --json >"$OUT/doctor.json"
for way in token-in text; do
  gateway "$way"
  node "$HERE/../token-in/conversations.mjs" --gateway "$GATEWAY" --conversations "${CONVERSATIONS:-40}" --outcome \
    >"$OUT/$way.figures.json"
  coppice verify --ledger "$OUT/$way.ledger.db" --rescore --engine "$URL" --tolerance "$TOLERANCE" --json >"$OUT/$way.verify.json" || true
done
# Forced tool calls are sampled from masked logits, so these are not scored again.
gateway auto
node "$HERE/token-in.mjs" --gateway "$GATEWAY" --engine "$URL" >"$OUT/token-in.json"
VERSION=$(curl -sf -m 5 "$URL/version")
node "$HERE/figures.mjs" "$OUT" "$VERSION" "$TOLERANCE"
