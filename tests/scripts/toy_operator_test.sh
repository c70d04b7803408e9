#!/usr/bin/env bash
# Adding an operator is adding one file: tests/ops/toy/hypot.cpp alone gives hypot shapes, strategies, layouts,
# a gradient, a text form, a place in programs, and the contract test.
# Usage: tests/scripts/toy_operator_test.sh FOLDER that holds toy_operator_tests and toy_shardwright
set -euo pipefail
built=$1

fail() {
  echo "toy_operator_test.sh: $1" >&2
  exit 1
}
expect() { # WHAT WANTED GOT
  [[ $2 == "$3" ]] || fail "$1: wanted
$2
got
$3"
}

! grep -rl hypot shardwright cmake || fail "the files above name the toy operator; nothing but its own file may"

tests=$("$built/toy_operator_tests" --gtest_filter='*hypot*' 2>&1) || fail "$tests"
grep -q 'PASSED.* 2[0-9] tests' <<<"$tests" || fail "the contract test has not seen all of it: $tests"

graph='%x = input f32[8, 6]
%w = param f32[8, 6] (init=ones)
%y = hypot %x, %w
%label = input f32[8, 6]
%loss = mean_squared_error %y, %label
output %loss
output %y'

expect "the whole network" \
  '%x = input f32[8, 6]
%w = param f32[8, 6] (init=ones)
%y = hypot %x, %w : f32[8, 6]
%label = input f32[8, 6]
%loss = mean_squared_error %y, %label : f32[]
output %loss
output %y' "$("$built/toy_shardwright" show - <<<"$graph")"

expect "the program of a rank" \
  '%x = input f32[2, 6]
%w = param f32[2, 6] (init=ones)
%y = hypot %x, %w : f32[2, 6]
%label = input f32[2, 6]
%7 = mean_squared_error %y, %label : f32[]
%loss = all_reduce.sum %7 over dp : f32[]' \
  "$("$built/toy_shardwright" lower - --devices 4 --set dp=4 <<<"$graph" | sed '/^backward:/,$d')"

losses() { # to five digits: the order of the sums differs
  "$built/toy_shardwright" train - --devices "$1" --lr 1 --steps 3 <<<"$graph" 2>/dev/null | grep -oE 'loss is [0-9]+\.[0-9]{4}'
}
alone=$(losses 1)
expect "losses on four devices" "$alone" "$(losses 4)"
