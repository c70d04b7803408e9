#!/usr/bin/env bash
# examples/text_to_sentences.sh with a small decoder: it is stopped, goes on where it was, and writes sentences.
# Usage: tests/scripts/text_to_sentences_test.sh FOLDER that holds shardwright
set -euo pipefail
PATH=$(realpath "$1"):$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
model=llama:layers=1,hidden=64,heads=2,ffn=128,vocab=900,seq=64,batch=16
examples/text_to_sentences.sh "$scratch/run" $model 400 >"$scratch/told" 2>&1 || { cat "$scratch/told"; exit 1; }
wants() { grep -qE "$1" "$scratch/told" || { cat "$scratch/told"; echo "text_to_sentences_test.sh: nothing says '$1'"; exit 1; }; }
wants 'interrupted: stopped after step [23][0-9][0-9]; saved in'
wants 'epoch: 0, step: 300, loss is [01]\.'
wants 'after step 400, on 564 held-out samples: loss is [01]\.'
read -r accepted _ lines _ < <(tail -n 1 "$scratch/told")
# Of an untrained one none is accepted.
((lines >= 40 && 4 * accepted >= lines)) || { echo "text_to_sentences_test.sh: $accepted of $lines"; exit 1; }
