#!/usr/bin/env bash
# Usage: llama-serve.sh DIR PORT
#
# Serves what llama-setup.sh put into DIR as model "smollm2" on 127.0.0.1:PORT, in the foreground: this process
# becomes the server, and SIGTERM to it stops it. Ready when /health answers 200.
# Take a free PORT: a foreign server's /health looks just the same.
#
# Costs, measured on 2 cores: ready after 0.6 to 4.4 s; 0.5 GB of memory. Both engines decode far slower on cores that
# others keep busy (7 s instead of 0.1 for 12 tokens): give requests time.
set -euo pipefail

die() {
  echo "llama-serve: $*" >&2
  exit 1
}

[[ $# -eq 2 && -n $1 && -n $2 ]] || die "usage: llama-serve.sh DIR PORT"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -d $1 ]] || die "no folder $1; run llama-setup.sh $1 first"
dir=$(cd "$1" && pwd)
[[ -f $dir/.llama-setup.complete ]] || die "$dir is not complete; run llama-setup.sh $dir first"

exec "$dir/venv/bin/python" "$here/llama_serve.py" "$dir/SmolLM2-135M-Instruct.Q4_1.gguf" "$2"
