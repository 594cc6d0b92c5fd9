#!/usr/bin/env bash
# Usage: interop/pi/run.sh
#
# Installs pi's coding agent (MIT, from the npm registry) into a folder of its own and lets it do a task of two tool
# calls, and one that makes it compact its context, through the gateway against the stand-in: pi only gets a base URL.
# Its forests, rows and side calls are then checked. One JSON line of figures at the end; exits 0 only where all held.
#
# COPPICE_INTEROP_CACHE  folder for the installed agent, kept between runs; without it a new one, deleted at the end
# DIST                   a build of Coppice; without it dist/, built anew where src/ is newer
#
# Costs, measured on 2 cores: 21 s to install (188 packages), then about 20 s.
set -euo pipefail

version=0.73.1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cache=${COPPICE_INTEROP_CACHE:-$temporary}
mkdir -p "$cache"
agent=$(cd "$cache" && pwd)/pi-$version

if [[ ! -f $agent/.complete ]]; then
  rm -rf "$agent"
  mkdir -p "$agent"
  echo '{"private":true}' >"$agent/package.json"
  (cd "$agent" && npm install --silent --ignore-scripts --save-exact "@mariozechner/pi-coding-agent@$version") >&2
  touch "$agent/.complete"
fi

if [[ -z ${DIST:-} ]]; then
  DIST=$root/dist
  if [[ ! -f $DIST/cli/main.js || -n $(find "$root/src" -name '*.ts' -newer "$DIST/cli/main.js" -print -quit) ]]; then
    (cd "$root" && npm run --silent build) >&2
  fi
fi
DIST=$(cd "$DIST" && pwd)
export DIST PI=$agent/node_modules/@mariozechner/pi-coding-agent/dist/cli.js
node "$root/interop/pi/check.mjs" "$temporary"
