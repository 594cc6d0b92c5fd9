#!/usr/bin/env bash
# Usage: interop/agents/run.sh codex|opencode|mini-swe-agent|openai-agents|langgraph|langgraph-responses|openai|anthropic
#
# Installs the agent from its registry and lets it do a task of two tool calls through the gateway against the stand-in, in
# the text way and token-in; it is told nothing but a base URL. One JSON line of figures at the end; exits 0 only where
# forest, rows and side calls are right. codex (Apache-2.0) and opencode (MIT) are native programs for Linux on x64; the
# others are Python packages and share one virtual environment.
#
# COPPICE_INTEROP_CACHE  folder for what is installed, kept between runs; without it a new one, deleted at the end
# PYTHON                 the interpreter: 3.11 or newer; python3 where it is not said
# DIST                   a build of Coppice; without it dist/, built anew where src/ is newer
#
# Costs, measured on 2 busy cores: npm 15 s, pip 2 to 6 min; then 10 to 40 s.
set -euo pipefail

agent=${1:-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mkdir -p "${COPPICE_INTEROP_CACHE:=$temporary/cache}"
cache=$(cd "$COPPICE_INTEROP_CACHE" && pwd)

npm_package() { # npm_package NAME PACKAGE: sets INSTALLED
  INSTALLED=$cache/$1
  [[ -f $INSTALLED/.complete ]] && return
  rm -rf "$INSTALLED"
  mkdir -p "$INSTALLED"
  echo '{"private":true}' >"$INSTALLED/package.json"
  (cd "$INSTALLED" && npm install --silent --ignore-scripts --save-exact "$2") >&2
  touch "$INSTALLED/.complete"
}

python_packages() { # sets INSTALLED
  INSTALLED=$cache/agents-python
  local wanted=$root/interop/agents/requirements.txt
  cmp --silent "$wanted" "$INSTALLED/.complete" && return
  rm -rf "$INSTALLED"
  "${PYTHON:-python3}" -m venv "$INSTALLED"
  "$INSTALLED/bin/pip" install --quiet --disable-pip-version-check -r "$wanted" >&2
  cp "$wanted" "$INSTALLED/.complete"
}

case $agent in
codex) npm_package codex-0.171.0 @openai/codex@0.171.0 ;;
opencode) npm_package opencode-1.18.33 opencode-ai@1.18.33 ;;
mini-swe-agent | openai-agents | langgraph | langgraph-responses | openai | anthropic) python_packages ;;
*)
  sed -n 2p "${BASH_SOURCE[0]}" >&2
  exit 1
  ;;
esac

if [[ -z ${DIST:-} ]]; then
  DIST=$root/dist
  if [[ ! -f $DIST/cli/main.js || -n $(find "$root/src" -name '*.ts' -newer "$DIST/cli/main.js" -print -quit) ]]; then
    (cd "$root" && npm run --silent build) >&2
  fi
fi
DIST=$(cd "$DIST" && pwd)
export DIST INSTALLED
node "$root/interop/agents/check.mjs" "$agent" "$temporary"
