#!/usr/bin/env bash
# Whether training takes the memory that it was planned to take: bench/memory.sh
# Trains networks whose arenas are large on 2 devices of one process and compares the most that the process has had in
# memory (VmHWM) with the arenas that were planned. Beside them a process holds the program and its libraries (the row
# tiny) and the kernels' workspaces, up to 25 MiB a rank: MEMORY_BESIDE together. Ends with 1 if a process has taken
# more than 3 % plus that.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$PWD/build/release/shardwright
beside=${MEMORY_BESIDE:-64} # MiB
failed=0

row() { # NAME MODEL FLAGS...
  local name=$1
  shift
  OMP_NUM_THREADS=1 "$program" train "$@" --devices 2 --steps 3 --json 2>/dev/null | tail -1 |
    python3 -c '
import json, sys
name, beside = sys.argv[1], int(sys.argv[2])
peak = json.load(sys.stdin)["summary"]["peak_memory_bytes"]
planned, measured, process = (sum(peak[k]) / 2**20 for k in ("planned", "measured", "processes"))
print(f"| {name:14} | {planned:7.1f} | {measured:7.1f} | {process:7.1f} | {process - planned:6.1f} |")
sys.exit(measured > planned or process > 1.03 * planned + beside)' "$name" "$beside" || failed=1
}

echo
echo "MiB on 2 devices ($(date +%F)); a process may have 3 % and $beside more than is planned"
echo
echo "|                | planned | touched |  VmHWM | beside |"
echo "| -------------- | ------- | ------- | ------ | ------ |"
data_parallel=(--parallel data_parallel --optimizer adamw)
row tiny ffn:widths=8-8-10,batch=8 "${data_parallel[@]}"
row "wide FFN" ffn:widths=1024-4096-4096-4096-10,batch=64 "${data_parallel[@]}"
row "decoder" llama:layers=4,hidden=512,heads=8,ffn=1376,vocab=8192,seq=256,batch=8 "${data_parallel[@]}"
row "decoder, 1f1b" llama:layers=8,hidden=512,heads=8,ffn=1376,vocab=8192,seq=256,batch=8 --optimizer adamw \
  --stages 2 --micro-batches 4 --schedule 1f1b
row ResNet-50 resnet50:image=128,classes=10,batch=16 --parallel data_parallel --optimizer momentum
if ((failed)); then
  echo "more than was promised"
  exit 1
fi
