#!/usr/bin/env bash
# What the program does when its output cannot be written, when it is interrupted, and when something has started many of
# it: streams_test.sh TEST PROGRAM
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# shellcheck source=tests/end_to_end/waiting.sh
source tests/end_to_end/waiting.sh

# says STATUS LINE COMMAND...: ends with this status, and its only line on standard error is like LINE.
says() {
  local status=$1 line=$2 rc=0
  shift 2
  "$@" 2>"$scratch/err" || rc=$?
  [[ $rc == "$status" ]] || fail "exit status $rc, not $status, of $*: $(cat "$scratch/err")"
  # shellcheck disable=SC2053 # the line is a pattern
  [[ $(grep -vc synthetic "$scratch/err") == 1 && $(grep -v synthetic "$scratch/err") == $line ]] ||
    fail "$* said: $(cat "$scratch/err")"
}

to_full_disk() { "$program" "$@" >/dev/full; }
to_nobody() { "$program" "$@" >&-; }

# Every verb, and what is printed without one.
unwritable_output() {
  local full="shardwright: standard output: cannot be written: No space left on device" words
  for words in --version --help "plan --help" "show ffn" "plan ffn --devices 2" "plan ffn --devices 2 --json" \
    "lower matmul_chain --devices 2" "verify ffn --json" "models" "train matmul_chain --steps 2" \
    "layout --device-matrix 2 --names dp --map dp --shape 4" "estimate gpt --json"; do
    # shellcheck disable=SC2086 # words
    says 2 "$full" to_full_disk $words
  done
  says 2 "shardwright: standard output: cannot be written: Bad file descriptor" to_nobody --version
  # A file that is opened does not get the number of the closed stream, and what is printed with it.
  says 2 "shardwright: standard output: *" to_nobody plan ffn --devices 2 -o "$scratch/plan.json"
  [[ ! -e $scratch/plan.json || $(head -c 1 "$scratch/plan.json") == "{" ]] || fail "$(head "$scratch/plan.json")"
}

# What was printed before an error is there.
output_before_an_error() {
  says 2 "shardwright: *" "$program" plan ffn --devices 5 --parallel data_parallel --json >"$scratch/out"
  [[ $(<"$scratch/out") == '{"status":"infeasible",'* ]] || fail "$(cat "$scratch/out")"
}

on_small_disk() {
  (
    ulimit -f 1 # KiB
    exec "$program" "$@"
  )
}

# The earlier files stay as they were, and nothing lies beside them.
full_disk() {
  local plan=$scratch/files/plan.json
  mkdir -p "$scratch/files"
  "$program" plan ffn --devices 2 -o "$plan" >/dev/null
  cp "$plan" "$scratch/earlier"
  says 2 "shardwright: $plan: cannot be written: File too large" on_small_disk plan ffn --devices 2 -o "$plan" \
    >/dev/null
  cmp "$plan" "$scratch/earlier"
  says 2 "shardwright: $scratch/files/01_*: cannot be written: File too large" on_small_disk lower ffn \
    --dump-passes "$scratch/files" >/dev/null
  says 2 "shardwright: $scratch/files/step.json: cannot be written: File too large" on_small_disk train \
    matmul_chain --steps 2 --trace "$scratch/files/step.json" >/dev/null
  says 2 "shardwright: $scratch/files/train-images-idx3-ubyte: cannot be written: File too large" on_small_disk \
    data digits --train 20 --test 20 --out "$scratch/files"
  says 2 "shardwright: $scratch/files/train-images-idx3-ubyte.gz: cannot be written: File too large" on_small_disk \
    data digits --train 20 --test 20 --gzip --out "$scratch/files"
  [[ $(ls "$scratch/files") == plan.json ]] || fail "left: $(ls "$scratch/files")"
}

# At the step that cannot be told, not at the end.
training_ends_with_its_output() {
  says 2 "shardwright: standard output: cannot be written: No space left on device" timeout 20 \
    bash -c "'$program' train matmul_chain --steps 100000000 --json >/dev/full"
  says 2 "shardwright: standard output: cannot be written: File too large" timeout 20 \
    bash -c "ulimit -f 1; '$program' train matmul_chain --steps 100000000 --json >'$scratch/log'"
  [[ $(head -n 1 "$scratch/log") == '{"step":0,'* ]] || fail "$(head -n 1 "$scratch/log")"
}

# A reader that has seen enough ends the program as usual, without a word.
closed_pipe() {
  local status
  set +eo pipefail
  timeout 20 "$program" train matmul_chain --steps 100000000 --json 2>"$scratch/err" | head -n 1 >"$scratch/out"
  status=${PIPESTATUS[0]}
  set -eo pipefail
  [[ $status == 141 ]] || fail "exit status $status"
  grep -v synthetic "$scratch/err" && fail "$(cat "$scratch/err")"
  [[ -s $scratch/out ]]
}

plan_to_standard_output() {
  "$program" plan ffn --devices 2 --json -o /dev/stdout >"$scratch/both"
  "$program" plan ffn --devices 2 --json -o "$scratch/plan.json" >"$scratch/out"
  cat "$scratch/plan.json" >>"$scratch/out"
  # But for the time that the search took.
  diff <(sed 's/"search_seconds":[^,]*//' "$scratch/out") <(sed 's/"search_seconds":[^,]*//' "$scratch/both") ||
    fail "the plan is not behind the report"
}

# catches_signals PID: whether it is the program, and has a handler of SIGTERM.
catches_signals() {
  local caught
  [[ $(readlink "/proc/$1/exe") == $(realpath "$program") ]] || return 1
  caught=$(sed -n 's/^SigCgt:\s*//p' "/proc/$1/status")
  ((16#$caught & 1 << (15 - 1)))
}

# A verb that waits for what never comes ends at the first signal.
interrupted_verb() {
  local signal rc
  mkfifo "$scratch/never"
  exec 9<>"$scratch/never"
  for signal in INT TERM HUP; do
    "$program" show - <&9 >"$scratch/out" 2>"$scratch/err" &
    run=$! rc=0
    for ((i = 0; i < 1000; ++i)); do
      catches_signals "$run" && break
      sleep 0.02
    done
    kill -s "$signal" "$run"
    wait "$run" || rc=$?
    [[ $rc == 130 && $(<"$scratch/err") == "shardwright: interrupted: nothing was written" ]] || fail "$signal: $rc, $(cat "$scratch/err")"
  done
}

# start WORDS...: a training, once it has begun its first step.
start() {
  rm -f "$scratch/out" "$scratch/err" # of a run before: the shell that starts this one empties them later
  "$program" train "$@" >"$scratch/out" 2>"$scratch/err" &
  run=$!
}

# ends_as LINE: the training ends soon with status 130 and this last line.
ends_as() {
  local rc=0
  SECONDS=0
  wait "$run" || rc=$?
  [[ $rc == 130 && $SECONDS -le 10 ]] || fail "exit status $rc after $SECONDS s: $(cat "$scratch/err")"
  [[ $(tail -n 1 "$scratch/err") == "$1" ]] || fail "not '$1' but: $(cat "$scratch/err")"
}

interrupted_training() {
  local step
  start ffn --devices 2 --steps 1000000 --json
  wait_for "$scratch/out" step
  kill -TERM "$run"
  wait_for "$scratch/err" finishing
  step=$(sed -n 's/^shardwright: interrupted: finishing step \([0-9]*\); once more stops at once$/\1/p' "$scratch/err")
  ends_as "shardwright: interrupted: stopped after step $step; nothing is saved"
  [[ $(tail -n 1 "$scratch/out") == "{\"step\":$step,"* ]] || fail "not $step: $(tail -n 1 "$scratch/out")"
}

# Of the last step, too; what all steps came to is told before.
interrupted_last_step() {
  start "matmul_chain:widths=512$(printf -- '-512%.0s' {1..20}),batch=1024" --steps 2 --json --trace "$scratch/trace"
  wait_for "$scratch/out" '"step":0'
  kill -TERM "$run"
  ends_as "shardwright: interrupted: stopped after step 1; nothing is saved"
  [[ $(tail -n 1 "$scratch/out") == '{"summary":{"steps":2,'* && -s $scratch/trace ]] || fail "$(cat "$scratch/out")"
}

# A step of many nodes, each of them short.
long_step="matmul_chain:widths=512$(printf -- '-512%.0s' {1..40}),batch=2048"

interrupted_twice() {
  for _ in 1 2 3 4 5; do
    start "$long_step" --devices 2 --parallel data_parallel --steps 20 --json
    wait_for "$scratch/out" step
    sleep 0.3  # into the next step: between two there is none to finish
    kill -TERM "$run"
    wait_for "$scratch/err" "finishing step\|stopped after step"
    grep -q "stopped after step" "$scratch/err" || break
    wait "$run" || true
  done
  kill -TERM "$run"
  ends_as "shardwright: interrupted: stopped within step $(sed -n 's/.*finishing step \([0-9]*\);.*/\1/p' "$scratch/err"); nothing is saved"
}

# Copies that cannot join are refused, and only the first says so.
other_launchers() {
  local words="shardwright: srun has started several copies of this program (SLURM_PROCID=0)*"
  export SLURM_STEP_ID=0 SLURM_NTASKS=4
  SLURM_PROCID=0 says 2 "$words" "$program" plan ffn
  # Where tasks could be ranks, they have to find each other.
  SLURM_PROCID=0 says 2 "shardwright: srun: SLURM_JOB_NODELIST is missing" "$program" train ffn --devices 4
  SLURM_PROCID=1 "$program" plan ffn >"$scratch/out" 2>&1 && fail "a copy ran"
  [[ ! -s $scratch/out ]] || fail "$(cat "$scratch/out")"
  SLURM_NTASKS=1 SLURM_PROCID=0 "$program" train matmul_chain --steps 1 >"$scratch/out" 2>&1 ||
    fail "$(cat "$scratch/out")"
}

# A rank table changes nothing, and that is told, once.
rank_table() {
  local words="shardwright: RANK_TABLE_FILE=table.json is not read; *"
  RANK_TABLE_FILE=table.json "$program" train matmul_chain --steps 1 >"$scratch/out" 2>"$scratch/err" ||
    fail "$(cat "$scratch/err")"
  # shellcheck disable=SC2053 # a pattern
  [[ $(cat "$scratch/err") == $words ]] || fail "$(cat "$scratch/err")"
}

# No more memory than the machine has, no more addresses than the process may have: both are asked before they are taken.
no_room() {
  says 2 "shardwright: 2 virtual devices take * GB here, but this machine has * GB; *" \
    "$program" train matmul_chain:widths=2000000-2000000,batch=2 --devices 2 --steps 1 --parallel data_parallel --json
  (
    ulimit -v 2000000
    says 2 "shardwright: 256 virtual devices take *, and their threads * of addresses, but ulimit -v leaves *" \
      "$program" train ffn --devices 256 --global-batch 256 --steps 1 --json
  )
  (
    ulimit -v 2000000
    "$program" train ffn --devices 4 --steps 1 >/dev/null 2>"$scratch/err" || fail "$(cat "$scratch/err")"
  )
}

"$1"
