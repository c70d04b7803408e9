#!/usr/bin/env bash
# How much of the communication a training step hides where there is something to hide: bench/overlap.sh [RATE]
# Two hosts, which are network namespaces, with one rank each and a link of RATE (1gbit) train a decoder, data parallel:
# with all gradients in one bucket, which starts when the backward has ended, and in the buckets of --comm-fusion auto.
# What a step takes more than without communication is exposed. Ends with 77 where there can be no namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."
rate=${1:-1gbit}
program=$PWD/build/release/shardwright
steps=${OVERLAP_STEPS:-8} rounds=${OVERLAP_ROUNDS:-3}
model=${OVERLAP_MODEL:-llama:layers=4,hidden=512,heads=8,ffn=1376,vocab=512,seq=256,batch=}
batch=4 # of a rank

if ((EUID != 0)) || ! ip netns add "swoverlap$$" 2>/dev/null; then
  echo "skipped: hosts are network namespaces, which only root can make"
  exit 77
fi
ip netns del "swoverlap$$"

seconds() { sed -n 's/.*"median_step_seconds":\([0-9.e-]*\).*/\1/p'; }
common=(--steps "$steps" --optimizer adamw --json)
alone() { OMP_NUM_THREADS=1 "$program" train "$model$batch" --devices 1 "${common[@]}" 2>/dev/null | seconds; }
together() { # COMM_FUSION
  rate=$rate OMP_NUM_THREADS=1 tests/support/net/hosts.sh 2 1 "$program" train "$model$((2 * batch))" --devices 2 \
    --parallel data_parallel --runtime mpi --comm-fusion "$1" "${common[@]}" 2>/dev/null | seconds
}

read -r load _ </proc/loadavg
echo
echo "A step of ${model%,batch=}, batch $batch on each of 2 hosts, link $rate ($(date +%F), load $load)"
echo
echo "| buckets            | step     | exposed  | hidden |"
echo "| ------------------ | -------- | -------- | ------ |"
alones=() lates=() earlies=() # in turns
for ((i = 0; i < rounds; ++i)); do
  alones+=("$(alone)")
  lates+=("$(together size:1024)")
  earlies+=("$(together auto)")
done
median() { printf '%s\n' "$@" | sort -g | sed -n "$((($# + 1) / 2))p"; }
awk -v a="$(median "${alones[@]}")" -v l="$(median "${lates[@]}")" -v e="$(median "${earlies[@]}")" 'BEGIN {
  printf "| no communication   | %5.0f ms | %5.0f ms |        |\n", a * 1e3, 0
  printf "| one, at the end    | %5.0f ms | %5.0f ms |    0 %% |\n", l * 1e3, (l - a) * 1e3
  printf "| auto               | %5.0f ms | %5.0f ms | %4.0f %% |\n", e * 1e3, (e - a) * 1e3, 100 * (l - e) / (l - a)
}'
