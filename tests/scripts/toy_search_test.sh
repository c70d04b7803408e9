#!/usr/bin/env bash
# Adding a search is adding one file: tests/search/toy/widest.cpp alone gives --search widest a place in the help and
# in errors, plans that train, and limits of what it heeds.
# Usage: tests/scripts/toy_search_test.sh FOLDER that holds toy_shardwright
set -euo pipefail
toy=$1/toy_shardwright

fail() {
  echo "toy_search_test.sh: $1" >&2
  exit 1
}

! grep -rlw '"widest"' shardwright cmake || fail "the files above name the toy search; nothing but its own file may"

model=(ffn --devices 4)
plan=$("$toy" plan "${model[@]}" --search widest)
grep -q 'search widest' <<<"$plan" || fail "the plan does not say who made it: $plan"
grep -q 'the largest dim is split' <<<"$plan" || fail "the plan does not say why: $plan"

losses() { "$toy" train ffn --steps 3 "$@" 2>/dev/null | grep -oE 'loss is [0-9]+\.[0-9]{4}'; }
[[ $(losses --devices 1) == "$(losses --devices 4 --search widest)" ]] || fail "other losses than on one device"

! said=$("$toy" plan "${model[@]}" --search widest --mem-coeff 2 2>&1) || fail "takes a setting that it does not heed: $said"
grep -q 'has an effect only in search recursive, not in widest; leave it out' <<<"$said" || fail "does not say what it has no use for: $said"
! said=$("$toy" plan "${model[@]}" --search wides 2>&1) || fail "there is no such search: $said"
grep -q 'there are auto, dynamic, exhaustive, integer, propagation, recursive, widest' <<<"$said" || fail "the list lacks it: $said"
