#!/usr/bin/env bash
# Usage: interop/run.sh neutral|proof|trl|verl|skyrl|tinker|art
#
# Exports the worked example through the command line, loads it with the real libraries and checks what they make of it.
# Prints one JSON line of figures at the end and exits 0 only where every claim held; details go to stderr.
#
# COPPICE_INTEROP_CACHE  folder for the virtual environments, kept between runs; without it a new one, deleted at the end
# PYTHON                 the interpreter: 3.11 or newer, 3.12 for skyrl and art. Without it the first that fits
# DIST                   a build of Coppice; without it dist/, built anew where src/ is newer
#
# Costs, measured on 2 cores: neutral 25 s to install, 0.65 GB; the others share one torch a Python version (90 s, 5.6 GB)
# and add 12 s (trl), 15 s (tinker), 52 s (verl), 34 s (art), 60 s (skyrl). Needs no GPU.
set -euo pipefail

die() {
  echo "interop: $*" >&2
  exit 1
}

what=${1:-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $# -eq 1 && -f $root/interop/requirements/$what.txt && $what != torch ]] ||
  die "usage: interop/run.sh neutral|proof|trl|verl|skyrl|tinker|art"

temporary=()
cleanup() { rm -rf "${temporary[@]}"; }
trap cleanup EXIT
new_folder() { # sets $folder
  folder=$(mktemp -d)
  temporary+=("$folder")
}

if [[ -n ${COPPICE_INTEROP_CACHE:-} ]]; then
  mkdir -p "$COPPICE_INTEROP_CACHE"
  cache=$(cd "$COPPICE_INTEROP_CACHE" && pwd)
else
  new_folder
  cache=$folder
fi

# ---- Python
wanted=3.11
[[ $what == skyrl || $what == art ]] && wanted=3.12
fits() { # exactly 3.12 where that is wanted, else at least 3.11
  "$1" -c "import sys, venv, ensurepip; v = sys.version_info[:2]; sys.exit(not (v == (3, 12) if '$wanted' == '3.12' else v >= (3, 11)))" 2>/dev/null
}
python=
for candidate in ${PYTHON:-} python3 "python$wanted" "$HOME"/.pyenv/versions/"$wanted".*/bin/python; do
  if fits "$candidate"; then
    python=$candidate
    break
  fi
done
[[ -n $python ]] || die "$what needs Python $wanted with venv; set PYTHON"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

install() { # install NAME [PARENT]: a virtual environment with NAME's requirements, seeing PARENT's packages
  local venv=$cache/$1-$version parent=${2:-} file=$root/interop/requirements/$1.txt stamp
  stamp=$({ cat "$file"; cat "${file%.txt}.no-deps.txt" 2>/dev/null || true; } | sha256sum)
  [[ -f $venv/.complete && $(<"$venv/.complete") == "$stamp" ]] && return
  rm -rf "$venv"
  "$python" -m venv "$venv"
  if [[ -n $parent ]]; then
    echo "$cache/$parent-$version/lib/python$version/site-packages" >"$venv/lib/python$version/site-packages/parent.pth"
  fi
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$file" >&2
  if [[ -f ${file%.txt}.no-deps.txt ]]; then
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "${file%.txt}.no-deps.txt" >&2
  fi
  echo "$stamp" >"$venv/.complete"
}

if [[ $what == neutral ]]; then
  install neutral
else
  install torch
  install "$what" torch
fi

# ---- exports, by the command line
if [[ -z ${DIST:-} ]]; then
  DIST=$root/dist
  if [[ ! -f $DIST/cli/main.js || -n $(find "$root/src" -name '*.ts' -newer "$DIST/cli/main.js" -print -quit) ]]; then
    (cd "$root" && npm run --silent build) >&2 || die "npm run build failed"
  fi
fi
export DIST
new_folder
export COPPICE_EXPORTS=$folder
coppice() { node "$DIST/cli/main.js" "$@"; }
export_shape() { # export_shape SHAPE
  for kind in near flat; do
    coppice export --trace "$root/interop/fixtures/$kind.trace.jsonl" --format parquet --shape "$1" \
      --out "$COPPICE_EXPORTS/$kind.$1.parquet"
  done
}

export HF_HUB_OFFLINE=1 HF_DATASETS_CACHE=$COPPICE_EXPORTS/datasets CUDA_VISIBLE_DEVICES= TOKENIZERS_PARALLELISM=false
case $what in
neutral)
  for format in jsonl arrow parquet; do
    coppice export --trace "$root/interop/fixtures/near.trace.jsonl" --format "$format" --shape rows \
      --out "$COPPICE_EXPORTS/near.$format"
  done
  node "$root/interop/neutral/export.mjs" "$COPPICE_EXPORTS"
  check=$root/interop/neutral/check.py
  ;;
proof)
  node "$root/interop/proof/export.mjs" "$COPPICE_EXPORTS"
  check=$root/interop/proof/check.py
  ;;
*)
  export_shape "$what"
  node "$root/interop/plant.mjs" "$what" "$COPPICE_EXPORTS"
  [[ $what == skyrl ]] && export_shape tinker
  check=$root/interop/trainers/$what/check.py
  ;;
esac
"$cache/$what-$version/bin/python" "$check"
