#!/usr/bin/env bash
# Usage: interop/grpo/run.sh [--picture FILE.svg]
#
# A real loop: SmolLM2-135M-Instruct served by the llama.cpp server in float32, rollouts through `coppice serve` the
# token-in way, rows from GET /groups/{id}/rows, a few GRPO steps in plain PyTorch (train.py), the weights put back into
# the engine after each. Prints one JSON line of figures and exits 0 only where the reward rose by the stated margin,
# captured and recomputed log-probs agree and the ledger verifies; details go to stderr. --picture draws the curve.
#
# COPPICE_INTEROP_CACHE  folder for the installations, kept between runs; without it a new one, deleted at the end
# PYTHON                 a Python 3.11 or newer with venv; without it python3
# DIST                   a build of Coppice; without it dist/, built anew where src/ is newer
# GRPO_THREADS           of the trainer and of the engine; without it 1
#
# Costs, measured on 2 cores beside other work: torch as in interop/run.sh (90 s, 5.6 GB), 11 s for the engine, then 3 to 5
# minutes; 1.1 GB of temporary files, 6 GB of memory. Needs no GPU.
set -euo pipefail

die() {
  echo "grpo: $*" >&2
  exit 1
}

picture=()
case $# in
0) ;;
2)
  [[ $1 == --picture ]] || die "usage: interop/grpo/run.sh [--picture FILE.svg]"
  picture=(--picture "$2")
  ;;
*) die "usage: interop/grpo/run.sh [--picture FILE.svg]" ;;
esac

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cache=${COPPICE_INTEROP_CACHE:-$out/cache}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

python=${PYTHON:-python3}
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] < (3, 11))' ||
  die "needs Python 3.11 or newer with venv; set PYTHON"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# The torch of interop/run.sh, by the same stamp, and beside it what this loop adds.
install() { # install NAME REQUIREMENTS [PARENT]
  local venv=$cache/$1-$version stamp
  stamp=$(sha256sum <"$2")
  [[ -f $venv/.complete && $(<"$venv/.complete") == "$stamp" ]] && return
  rm -rf "$venv"
  "$python" -m venv "$venv"
  if [[ -n ${3:-} ]]; then
    echo "$cache/$3-$version/lib/python$version/site-packages" >"$venv/lib/python$version/site-packages/parent.pth"
  fi
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$2" >&2
  echo "$stamp" >"$venv/.complete"
}
install torch "$root/interop/requirements/torch.txt"
install grpo "$here/requirements.txt" torch
"$root/interop/engines/llama-setup.sh" "$cache/llama-cpp" >&2

cd "$root"
[[ -d node_modules ]] || npm ci >&2
if [[ -z ${DIST:-} ]]; then
  DIST=$root/dist
  if [[ ! -f $DIST/cli/main.js || -n $(find src -name '*.ts' -newer "$DIST/cli/main.js" -print -quit) ]]; then
    npm run --silent build >&2 || die "npm run build failed"
  fi
fi

gguf=$cache/llama-cpp/SmolLM2-135M-Instruct.Q4_1.gguf
threads=${GRPO_THREADS:-1}
# A thread that waits must not keep a core from the other process.
export OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=passive HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES= TOKENIZERS_PARALLELISM=false
"$cache/grpo-$version/bin/python" "$root/interop/engines/gguf2hf.py" "$gguf" "$out/model" >&2
"$cache/grpo-$version/bin/python" "$here/train.py" --model "$out/model" --gguf "$gguf" --dist "$DIST" --out "$out" \
  --llama-python "$cache/llama-cpp/venv/bin/python" --threads "$threads" "${picture[@]}"
