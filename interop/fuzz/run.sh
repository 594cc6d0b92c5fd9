#!/usr/bin/env bash
# The gateway's OpenAPI document, fuzzed by schemathesis against `coppice serve` with the stand-in behind it: no answer of
# 500 and above, whatever is sent. Installs schemathesis (20 s) into a virtual environment under COPPICE_INTEROP_CACHE, or
# into one that is deleted at the end; then runs for FUZZ_SECONDS (60) at most from FUZZ_SEED (1). Prints one JSON line and
# exits 0 only where it held. DIST names a build of Coppice; without it dist/, built anew.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
CACHE=${COPPICE_INTEROP_CACHE:-$WORK}
mkdir -p "$CACHE"
VENV=$CACHE/fuzz
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
export DIST WORK
"$VENV/bin/python" "$HERE/check.py"
