#!/usr/bin/env bash
# Usage: interop/chaos/run.sh
#
# Three gateways and two consumers on one PostgreSQL (from npm, with syncs), 200 rollouts in flight. Every 2 s a gateway or
# a consumer is killed with -9 and started again; the database is restarted once. Afterwards: every answered call was
# delivered once under the acknowledged claim of its group, every group was acknowledged exactly once and delivered at
# least once, and every rollout's counts add up. One JSON line of figures at the end; exits 0 only where all held.
#
# COPPICE_CHAOS_SECONDS  how long rollouts are begun (default 40)
# COPPICE_CHAOS_SEED     chooses who is killed
#
# Costs, measured on 2 cores: 60 to 95 s.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# A build of its own, where the packages can be found from.
work=$root/node_modules/.cache/coppice-chaos
mkdir -p "$work"
cp "$root/package.json" "$work/package.json"
ln -sfn "$root/vectors" "$work/vectors"
(cd "$root" && npx tsc -p tsconfig.build.json --outDir "$work/dist") >&2
cd "$root"
exec timeout --signal=TERM 240 node --import "$root/test/typescript/register.mjs" "$root/interop/chaos/run.mjs" "$work/dist"
