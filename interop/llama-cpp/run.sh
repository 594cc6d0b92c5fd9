#!/usr/bin/env bash
# Usage: interop/llama-cpp/run.sh [--short]
#
# The token-in way on a real engine with a real model: the llama.cpp server with SmolLM2-135M-Instruct, both from the
# package registry. Plays 40 conversations of 6 turns at temperature 1.3 (8 of 4 with --short) through `coppice serve`
# and prints one JSON line of figures. Exits 0 only where every conversation stayed one tree without a drift and every
# call went token-in. Beside it stands what the text way would have made of the same conversations.
#
# COPPICE_INTEROP_CACHE  folder for the installation, kept between runs; without it a new one, deleted at the end
#
# Costs, measured on 2 cores: 8 s to install, 0.3 GB; 20 s with --short, 2 minutes without.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
conversations=40 turns=6
case "${1:-}" in
  --short) conversations=8 turns=4 ;;
  "") ;;
  *)
    echo "usage: interop/llama-cpp/run.sh [--short]" >&2
    exit 2
    ;;
esac

out=$(mktemp -d)
processes=()
cleanup() {
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
  for process in "${processes[@]}"; do wait "$process" 2>/dev/null || true; done
  rm -rf "$out"
}
trap cleanup EXIT
install=${COPPICE_INTEROP_CACHE:-$out}/llama-cpp

cd "$root"
[[ -d node_modules ]] || npm ci >&2
if [[ ! -f dist/cli/main.js || -n $(find src -name '*.ts' -newer dist/cli/main.js -print -quit) ]]; then
  npx tsc -p tsconfig.build.json >&2
  touch dist/cli/main.js
fi
"$here/../engines/llama-setup.sh" "$install" >&2

port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
"$here/../engines/llama-serve.sh" "$install" "$port" >"$out/engine.log" 2>&1 &
processes+=($!)
engine=http://127.0.0.1:$port
for i in $(seq 120); do
  kill -0 "${processes[0]}" 2>/dev/null || { tail -20 "$out/engine.log" >&2; echo "the engine ended while starting" >&2; exit 1; }
  curl -sf -m 2 "$engine/health" >/dev/null && break
  [[ $i == 120 ]] && { echo "the engine did not start in 60 s" >&2; exit 1; }
  sleep 0.5
done

: >"$out/serve.log"
node dist/cli/main.js doctor --engine "$engine" --json >"$out/doctor.json"
node dist/cli/main.js serve --engine "$engine" --way token-in --ledger "$out/ledger.db" --port 0 >"$out/serve.log" 2>"$out/serve.err" &
processes+=($!)
for i in $(seq 120); do
  gateway=$(sed -n 's/^coppice listens on \(http[^ ]*\).*/\1/p' "$out/serve.log")
  [[ -n $gateway ]] && break
  kill -0 "${processes[1]}" 2>/dev/null || { cat "$out/serve.err" >&2; echo "the gateway ended while starting" >&2; exit 1; }
  [[ $i == 120 ]] && { echo "the gateway did not start in 60 s" >&2; exit 1; }
  sleep 0.5
done

node "$here/../token-in/conversations.mjs" --gateway "$gateway" --conversations "$conversations" --turns "$turns" \
  --rerender "$engine" >"$out/figures.json"
node dist/cli/main.js verify --ledger "$out/ledger.db" --json >"$out/verify.json"
node "$here/figures.mjs" "$out"
