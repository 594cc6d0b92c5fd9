#!/usr/bin/env bash
# Python's official clients, `openai` and `anthropic`, through the gateway against the stand-in: text, tool calls,
# reasoning, streaming, errors, retries, aborts, ends without a terminator. Installs both (15 s) into a virtual
# environment under COPPICE_INTEROP_CACHE, or into one that is deleted at the end. Prints one JSON line and exits 0 only
# where everything held. DIST names a build of Coppice; without it dist/, built anew.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
if [[ -n ${COPPICE_INTEROP_CACHE:-} ]]; then
  CACHE=$COPPICE_INTEROP_CACHE
  mkdir -p "$CACHE"
else
  CACHE=$(mktemp -d)
  trap 'rm -rf "$CACHE"' EXIT
fi
VENV=$CACHE/clients
STAMP=$(sha256sum <"$HERE/requirements.txt")
if [[ ! -f $VENV/.complete || $(<"$VENV/.complete") != "$STAMP" ]]; then
  rm -rf "$VENV"
  "${PYTHON:-python3}" -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check -r "$HERE/requirements.txt" >&2
  echo "$STAMP" >"$VENV/.complete"
fi
if [[ -z ${DIST:-} ]]; then
  (cd "$ROOT" && npm run --silent build) >&2
  DIST=$ROOT/dist
fi
export DIST
"$VENV/bin/python" "$HERE/check.py"
