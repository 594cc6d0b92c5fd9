#!/usr/bin/env bash
# Usage: interop/pi/real-engine.sh
#
# pi's coding agent through the gateway on a real engine with a real small model (llama.cpp, SmolLM2-135M-Instruct): one task,
# whatever the model makes of them. The forest, the rows and every record are checked. One JSON line of figures at the end.
# COPPICE_INTEROP_CACHE keeps what is installed (about 200 MB) between runs; without it a new folder, deleted at the end.
set -euo pipefail

version=0.73.1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
temporary=$(mktemp -d)
server=
stop() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$temporary"
}
trap stop EXIT
cache=${COPPICE_INTEROP_CACHE:-$temporary}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
agent=$cache/pi-$version
if [[ ! -f $agent/.complete ]]; then
  rm -rf "$agent"
  mkdir -p "$agent"
  echo '{"private":true}' >"$agent/package.json"
  (cd "$agent" && npm install --silent --ignore-scripts --save-exact "@mariozechner/pi-coding-agent@$version") >&2
  touch "$agent/.complete"
fi
"$root/interop/engines/llama-setup.sh" "$cache/llama-cpp" >&2
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
LLAMA_SLOTS=1 LLAMA_SLOT_CONTEXT=8192 "$root/interop/engines/llama-serve.sh" "$cache/llama-cpp" "$port" >"$temporary/llama.log" 2>&1 &
server=$!
for i in $(seq 60); do
  curl -sf -m 2 "http://127.0.0.1:$port/health" >/dev/null && break
  [[ $i != 60 ]] || { tail -5 "$temporary/llama.log" >&2; echo "the engine did not start" >&2; exit 1; }
  sleep 1
done
[[ -f $root/dist/cli/main.js ]] || (cd "$root" && npm run --silent build) >&2
export DIST=$root/dist PI=$agent/node_modules/@mariozechner/pi-coding-agent/dist/cli.js
node "$root/interop/pi/real-engine.mjs" "http://127.0.0.1:$port" "$temporary"
