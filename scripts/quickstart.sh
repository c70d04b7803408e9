#!/usr/bin/env bash
# From a fresh clone to a trained network: installs, builds, and trains the FFN on 8 virtual devices from two
# annotated operators. On MNIST if DATA_PATH names its folder, else on digits that are drawn here.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh shardwright
if [[ -z ${DATA_PATH:-} ]]; then
  export DATA_PATH=build/digits
  # The last file that is written: a run that was stopped half way starts over.
  if [[ ! -f $DATA_PATH/t10k-labels-idx1-ubyte ]]; then
    rm -rf build/digits
    build/release/shardwright data digits --out build/digits
  fi
fi
build/release/shardwright train ffn --devices 8 --annotate examples/annotations/ffn_seed000.json \
  --search propagation --optimizer momentum --lr 0.05 --momentum 0.9 --epochs 1 --log-every 50
