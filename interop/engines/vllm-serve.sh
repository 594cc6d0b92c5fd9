#!/usr/bin/env bash
# Usage: vllm-serve.sh DIR PORT [extra vllm flags]
#
# Serves what vllm-setup.sh put into DIR as model "smollm2" on 127.0.0.1:PORT, in the foreground: this process
# becomes the server. Ready when /health answers 200; take a free PORT, because a foreign server's /health looks
# just the same. SIGTERM stops it with all its children within 3 s. While it is still loading, a SIGTERM is
# often lost: wait for /health first, or repeat it until the process is gone.
#
# Costs, measured on 2 cores: ready after 22 to 35 s, 66 s beside other work; 4.1 GB of memory.
set -euo pipefail

die() {
  echo "vllm-serve: $*" >&2
  exit 1
}

[[ $# -ge 2 && -n $1 && -n $2 ]] || die "usage: vllm-serve.sh DIR PORT [extra vllm flags]"
[[ -d $1 ]] || die "no folder $1; run vllm-setup.sh $1 first"
dir=$(cd "$1" && pwd)
port=$2
shift 2
[[ -f $dir/.vllm-setup.complete ]] || die "$dir is not complete; run vllm-setup.sh $dir first"

. "$dir/venv/bin/activate"
# vLLM starts its workers with `python -c`: a re.py in the working directory would otherwise break them.
export PYTHONSAFEPATH=1

# One gigabyte of KV cache and two cores, whatever the machine has: a test engine among other work.
export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1}
export VLLM_CPU_OMP_THREADS_BIND=${VLLM_CPU_OMP_THREADS_BIND:-$(python -c \
  'import os; print(",".join(map(str, sorted(os.sched_getaffinity(0))[:2])))')}
export VLLM_CACHE_ROOT=$dir/vllm-cache HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
# Opens the routes that pause the engine and change its weight version.
export VLLM_SERVER_DEV_MODE=1
# Without it the first request with log-probs compiles a kernel for 15 to 22 s. Goes with --enforce-eager only.
export TORCHDYNAMO_DISABLE=1
# 27 to 75 tokens a second with eight callers.
export LD_PRELOAD=$dir/venv/lib/libiomp5.so

# float32 because bfloat16 is slower on CPUs without it. Scale-out opens render, generate and derender.
exec vllm serve "$dir/hf-smollm2" --served-model-name smollm2 --host 127.0.0.1 --port "$port" \
  --dtype float32 --max-model-len 2048 --max-num-seqs 16 --enforce-eager --enable-scale-out \
  --enable-auto-tool-choice --tool-call-parser hermes --enable-prompt-tokens-details "$@"
