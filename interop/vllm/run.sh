#!/usr/bin/env bash
# The main job on a real engine with a real model: vLLM on the CPU with SmolLM2-135M-Instruct, the demo agent in both
# modes, and every trained token's log-prob asked again. Installs what it needs (5.6 GB, minutes) under COPPICE_INTEROP,
# starts and stops the engine itself, and ends with one JSON line. Exits 0 only where rows came out of both modes and no
# log-prob is off by more than 1e-4.
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
"$HERE/../engines/vllm-serve.sh" "$CACHE/vllm" "$PORT" >"$OUT/vllm.log" 2>&1 &
ENGINE=$!
# While it loads, vLLM may lose a signal: it is repeated until the process is gone.
stop() {
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
VERSION=$(curl -sf -m 5 "$URL/version")
node "$HERE/figures.mjs" "$OUT" "$VERSION" "$TOLERANCE"
