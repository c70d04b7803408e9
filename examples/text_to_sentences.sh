#!/usr/bin/env bash
# From text to sentences: draws a corpus by a grammar, makes tokens of it, trains a decoder on two devices, which is stopped half way and
# goes on, and lets it write. The last line tells how many of its sentences the grammar accepts.
# Usage: examples/text_to_sentences.sh FOLDER [MODEL [STEPS]], with shardwright on the path; minutes on two cores
set -euo pipefail
folder=$1 model=${2:-llama:layers=6,hidden=384,heads=6,kv_heads=2,ffn=1024,vocab=900,seq=64,batch=16} steps=${3:-240}
tokenizer=$(dirname "$0")/../tests/reference/tokenizer/gpt2_style.json
mkdir -p "$folder"
shardwright data sentences --out "$folder/corpus"
for part in train val; do
  shardwright tokenize "$tokenizer" "$folder/corpus/$part.txt" -o "$folder/corpus/$part.bin"
done
training=(train "$model" --data "$folder/corpus" --devices 2 --optimizer adamw --lr 0.002 --lr-schedule cosine --warmup 20
  --steps "$steps" --log-every 100 --save "$folder/run")
shardwright "${training[@]}" --save-every $((steps / 2)) &
until ls "$folder"/run/step-*/manifest.json >/dev/null 2>&1; do sleep 0.1; done
kill -INT $! # half way it is interrupted, as by Ctrl-C, and saves what it has done
wait $! || true
shardwright "${training[@]}" --resume auto --eval "$folder/corpus"
for seed in {1..25}; do # the last line is cut off where the tokens end
  shardwright generate "$model" --checkpoint "$folder/run" --tokenizer "$tokenizer" --text $'The river sleeps.\n' --tokens 54 \
    --temperature 0.7 --seed "$seed" 2>/dev/null | sed '$d'
done >"$folder/said.txt"
shardwright data sentences --check "$folder/said.txt"
