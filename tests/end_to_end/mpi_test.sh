#!/usr/bin/env bash
# `train --runtime mpi` gives the losses of threads, and ends as it should: mpi_test.sh TEST PROGRAM [MPI_TESTS]
# That every plan trains over processes as on one device, reference_test.cpp shows in mpi_tests.
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$2
mpi_tests=$(realpath "${3:-$2}")
scratch=$(mktemp -d)
trap '[[ $BASHPID != "$$" ]] || rm -rf "$scratch"' EXIT  # not of the shell's copy of itself, which a signal may end

# shellcheck source=tests/end_to_end/waiting.sh
source tests/end_to_end/waiting.sh

# losses WORDS...: the lines of the steps
losses() { "$program" train "$@" --json --steps 5 | grep '"step"'; }

# same_losses N: to the last digit, of annotations and of a plan file.
same_losses() {
  local n=$1 plan=$scratch/plan.json words
  cat >"$scratch/annotations.json" <<<"{\"dense1.matmul\": {\"in\": [[2, $((n / 2))], [$((n / 2)), 1]]},
    \"dense3.matmul\": {\"in\": [[1, $n], [$n, 1]]}}"
  local plan_words="--annotate $scratch/annotations.json --optimizer-parallel 3:threshold=0"
  # shellcheck disable=SC2086 # words
  "$program" plan ffn --devices "$n" $plan_words -o "$plan" >"$scratch/out"
  for words in "--devices $n $plan_words" "--plan $plan"; do
    words+=" --data tests/reference/ffn.safetensors --init tests/reference/ffn.safetensors"
    # shellcheck disable=SC2086
    losses ffn $words >"$scratch/threads"
    # shellcheck disable=SC2086
    losses ffn $words --runtime mpi >"$scratch/mpi"
    [[ $(wc -l <"$scratch/threads") == 5 ]] || fail "no losses: train ffn $words"
    diff "$scratch/threads" "$scratch/mpi" || fail "the losses differ: train ffn $words"
  done
}

# Backwards that are cut, chunks in a V, a table: to the last digit as threads.
# Sequences of several lengths share memory that peers read.
buckets() {
  /usr/bin/python3 -c 'import struct, sys
for n in range(46): sys.stdout.buffer.write(struct.pack(f"<{n % 15 + 2}H", *range(1, n % 15 + 2), 0))' >"$scratch/t.bin"
  local words split="llama:layers=2,hidden=16,heads=4,ffn=16,vocab=64,batch=4 --data $scratch/t.bin --end 0 --buckets 4,8,16"
  for words in "$split --devices 2" "$split --devices 2 --fix tp=2" "$split --devices 4 --fix pp=2,micro_batches=2,dp=2,zero=1"; do
    # shellcheck disable=SC2086 # words
    losses $words >"$scratch/threads"
    # shellcheck disable=SC2086
    losses $words --runtime mpi >"$scratch/mpi"
    [[ $(wc -l <"$scratch/threads") == 5 ]] || fail "no losses: train $words"
    diff "$scratch/threads" "$scratch/mpi" || fail "the losses differ: train $words"
  done
}

schedules() {
  local schedule words
  "$program" lower ffn:batch=8,widths=6-6-6-6 --devices 2 --stages 2 --micro-batches 4 --schedule zero-bubble \
    --schedule-csv "$scratch/table.csv" >"$scratch/out"
  for schedule in zero-bubble zero-bubble:2 zb-v v-half v-min dualpipe-v "$scratch/table.csv"; do
    words="ffn:batch=16,widths=12-10-10-10-10-10-10-10-6 --devices 4 --stages 2 --micro-batches 4 --schedule $schedule"
    # shellcheck disable=SC2086 # words
    losses $words >"$scratch/threads"
    # shellcheck disable=SC2086
    losses $words --runtime mpi >"$scratch/mpi"
    [[ $(wc -l <"$scratch/threads") == 5 ]] || fail "no losses: train $words"
    diff "$scratch/threads" "$scratch/mpi" || fail "the losses differ: train $words"
  done
}

# Parts of micro-batches that run side by side, with tensors split and in stages: to the last digit as threads.
parts() {
  local model=gpt:layers=2,hidden=16,heads=2,vocab=24,seq=4,batch=24 set words
  for set in tp=2,micro_batches=2 dp=2,zero=3,zero_threshold=0,micro_batches=3 dp=2,tp=2,sequence_parallel=1 tp=2,pp=2,micro_batches=2; do
    words="$model --set $set --micro-batch-interleave 2"
    # shellcheck disable=SC2086 # words
    losses $words | sed 's/,"tokens_per_second.*//' >"$scratch/threads"
    # shellcheck disable=SC2086
    losses $words --runtime mpi | sed 's/,"tokens_per_second.*//' >"$scratch/mpi"
    [[ $(wc -l <"$scratch/threads") == 5 ]] || fail "no losses: train $words"
    diff "$scratch/threads" "$scratch/mpi" || fail "the losses differ: train $words"
  done
}

# The first rank writes the events of all.
traces() {
  local rank trace=$scratch/step.json
  "$program" train ffn --devices 4 --stages 2 --micro-batches 2 --steps 3 --runtime mpi --json --trace "$trace" \
    >"$scratch/out" 2>"$scratch/err" || fail "$(cat "$scratch/err")"
  grep -q '"bubble_fraction":0\.[0-9]' "$scratch/out" || fail "no bubbles: $(tail -n 1 "$scratch/out")"
  for rank in 0 1 2 3; do
    grep -q "rank $rank (stage $((rank / 2))) compute" "$trace" || fail "rank $rank is not in the trace"
  done
  # Of the two steps that are recorded.
  [[ $(grep -c '"name":"backward 1"' "$trace") == 8 ]] || fail "a rank's tasks are missing"
}

# on_hosts HOSTS RANKS_PER_HOST FILTER: tests of mpi_tests on hosts that are network namespaces.
on_hosts() {
  if ((EUID != 0)) || ! ip netns add "swtest$$" 2>/dev/null; then
    echo "skipped: hosts are network namespaces, which only root can make"
    exit 77
  fi
  ip netns del "swtest$$"
  tests/support/net/hosts.sh "$1" "$2" "$mpi_tests" --gtest_brief=1 --gtest_filter="$3"
}

# expect_end STATUS LINE SECONDS COMMAND...: ends so soon with this status, and says this line and nothing else.
expect_end() {
  local status=$1 line=$2 seconds=$3 rc=0
  shift 3
  timeout "$seconds" "$@" >"$scratch/out" 2>"$scratch/err" || rc=$?
  [[ $rc == "$status" ]] || fail "exit status $rc, not $status, of $*: $(cat "$scratch/err")"
  grep -v synthetic "$scratch/err" >"$scratch/lines" || true
  # shellcheck disable=SC2053 # the line is a pattern
  [[ $(wc -l <"$scratch/lines") == 1 && $(<"$scratch/lines") == $line ]] ||
    fail "$* said: $(cat "$scratch/lines")"
}

errors() {
  expect_end 2 "shardwright: parallel mode 'odd' does not exist*" 20 \
    "$program" train ffn --devices 4 --runtime mpi --parallel odd
  expect_end 2 "shardwright: *no-such.safetensors*" 20 \
    "$program" train ffn --devices 4 --runtime mpi --data no-such.safetensors
  expect_end 2 "shardwright: --runtime mpi cannot read the model from standard input*" 20 \
    "$program" train - --devices 4 --runtime mpi
  mpirun -n 2 --oversubscribe --allow-run-as-root "$program" train ffn --devices 4 --runtime mpi \
    >/dev/null 2>"$scratch/err" && fail "two ranks ran a plan for four"
  [[ $(grep -c "shardwright: --devices 4 but mpirun has started 2 ranks" "$scratch/err") == 1 ]] ||
    fail "$(cat "$scratch/err")"
  # What only the first rank finds ends all, too.
  timeout 20 mpirun -n 2 --oversubscribe --allow-run-as-root "$program" calibrate --quick --out "$scratch/no/c.yaml" \
    >/dev/null 2>"$scratch/err" && fail "calibrate wrote into no folder"
  [[ $(grep -c "^shardwright: $scratch/no/c.yaml" "$scratch/err") == 1 ]] || fail "$(cat "$scratch/err")"
}

# One label that does not exist, in the part of the last rank.
failing_rank() {
  local header='{"input":{"dtype":"F32","shape":[1,4,8],"data_offsets":[0,128]},"label":{"dtype":"I32","shape":[1,4],"data_offsets":[128,144]}}'
  {
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
    head -c 140 /dev/zero
    printf '\x63\0\0\0'
  } >"$scratch/data.safetensors"
  expect_end 2 "shardwright: rank 3: *99*" 20 "$program" train ffn:widths=8-10,batch=4 --devices 4 \
    --parallel data_parallel --runtime mpi --data "$scratch/data.safetensors" --loss cross_entropy
}

killed_rank() {
  "$program" train ffn --devices 4 --steps 1000000 --json --runtime mpi >"$scratch/out" 2>"$scratch/err" &
  local run=$! rank rc=0
  for ((i = 0; i < 200; ++i)); do
    [[ -s $scratch/out ]] && break
    sleep 0.1
  done
  rank=$(pgrep -P "$(pgrep -P "$run")" | sed -n 3p)
  SECONDS=0
  kill -9 "$rank"
  wait "$run" || rc=$?
  ((rc == 75 && SECONDS <= 10)) || fail "exit status $rc after $SECONDS s"
  grep -q '^shardwright: rank 2 on .* was ended by signal 9' "$scratch/err" || fail "$(cat "$scratch/err")"
}

# ranks_of RUN: their processes, in their order.
ranks_of() { pgrep -P "$(pgrep -P "$1")"; }

# begin WORDS...: a long training in the background, `run`, once its first loss is there.
begin() {
  : >"$scratch/out"
  "$program" train "$@" --steps 1000000 --json --runtime mpi >"$scratch/out" 2>"$scratch/err" &
  run=$!
  wait_for "$scratch/out" '"step":1,'
}

# ends_without RANK SECONDS: the run has lost a rank, says so, and takes all of its processes along.
ends_without() {
  local rc=0 ranks
  ranks=$(ranks_of "$run")
  SECONDS=0
  wait "$run" || rc=$?
  [[ $rc == 75 && $SECONDS -le $2 ]] || fail "exit status $rc after $SECONDS s: $(cat "$scratch/err")"
  grep -Eq "^shardwright: rank [0-9]: .* waited .* s for rank $1, which gives no sign of life" "$scratch/err" ||
    fail "$(cat "$scratch/err")"
  # The one that was stopped dies with mpirun, a moment later.
  for ((i = 0; i < 100; ++i)); do
    ps -o stat= -p "${ranks//$'\n'/,}" | grep -qv Z || return 0
    sleep 0.02
  done
  fail "ranks live on"
}

# A rank that is stopped, in whatever it does: sums, exchanges between stages, and what is agreed on while it is saved.
stopped_rank() {
  local words n=0
  for words in "--devices 2 --parallel data_parallel" "--devices 4 --stages 2 --micro-batches 2" \
    "--devices 4 --save-every 1 --keep 2"; do
    # shellcheck disable=SC2086 # words
    begin ffn $words --save "$scratch/run$((++n))" --timeout 1s
    kill -STOP "$(ranks_of "$run" | sed -n 2p)"
    ends_without 1 5
    grep -q "; what each rank did last is in $scratch/run$n/flight-record$" "$scratch/err" || fail "$(cat "$scratch/err")"
    grep -Eq '^step [0-9]+, [0-9.]+ s, .*: (start|finish|replace|clear|fill|%)' \
      "$scratch/run$n/flight-record/rank-0.txt" || fail "no instructions: $(cat "$scratch/run$n/flight-record/rank-0.txt")"
  done
}

# One that is stopped before it has joined, or before it has agreed to begin.
stopped_early() {
  local rc=0 i
  "$program" train ffn --devices 2 --steps 1000000 --runtime mpi --timeout 300ms >"$scratch/out" 2>"$scratch/err" &
  run=$!
  for ((i = 0; i < 1000; ++i)); do
    rank=$(ranks_of "$run" 2>/dev/null | sed -n 2p) && [[ $rank ]] && break
    sleep 0.01
  done
  kill -STOP "$rank"
  SECONDS=0
  wait "$run" || rc=$?
  [[ $rc == 75 && $SECONDS -le 10 ]] || fail "exit status $rc after $SECONDS s: $(cat "$scratch/err")"
  grep -Eq "^shardwright: rank 0: .* waited .* s for rank 1, which" "$scratch/err" || fail "$(cat "$scratch/err")"
}

# All are stopped for longer than any may be silent, as by Ctrl-Z, and go on.
paused() {
  local steps
  begin ffn --devices 4 --timeout 500ms
  # shellcheck disable=SC2046 # numbers
  kill -STOP $(ranks_of "$run")
  sleep 2
  # shellcheck disable=SC2046
  kill -CONT $(ranks_of "$run")
  steps=$(wc -l <"$scratch/out")
  for ((i = 0; i < 200 && $(wc -l <"$scratch/out") <= steps + 10; ++i)); do sleep 0.05; done
  ends_as "shardwright: interrupted: stopped after step *"
}

# ends_as LINE: the run ends soon with status 130 and this last line, and takes its processes along.
ends_as() {
  ask_to_end
  has_ended_as "$1"
}

ask_to_end() {
  rc=0
  ranks=$(pgrep -P "$(pgrep -P "$run")")
  SECONDS=0
  kill -TERM "$run"
  wait "$run" || rc=$?
}

has_ended_as() {
  [[ $rc == 130 && $SECONDS -le 10 ]] || fail "exit status $rc after $SECONDS s: $(cat "$scratch/err")"
  # shellcheck disable=SC2053 # the line is a pattern
  [[ $(tail -n 1 "$scratch/err") == $1 ]] || fail "not '$1' but: $(cat "$scratch/err")"
  # One that has ended and that nobody has asked about yet is a zombie.
  ! ps -o stat= -p "${ranks//$'\n'/,}" | grep -v Z || fail "ranks live on"
}

# All ranks end behind the same step.
interrupted() {
  "$program" train ffn --devices 4 --steps 1000000 --json --runtime mpi >"$scratch/out" 2>"$scratch/err" &
  run=$!
  wait_for "$scratch/out" step
  ends_as "shardwright: interrupted: stopped after step *"
  [[ $(tail -n 1 "$scratch/out") == "{\"step\":$(sed -n 's/.*stopped after step \([0-9]*\);.*/\1/p' "$scratch/err"),"* ]] ||
    fail "$(cat "$scratch/err") behind $(tail -n 1 "$scratch/out")"
}

# mpirun loses signals before the ranks are there.
interrupted_early() {
  local wait rc
  for wait in 0 0.05 0.2 0.4; do
    "$program" train ffn --devices 4 --steps 1000000 --json --runtime mpi >"$scratch/out" 2>"$scratch/err" &
    run=$! rc=0
    sleep "$wait"
    SECONDS=0
    kill -TERM "$run"
    wait "$run" || rc=$?
    # The shell's copy of itself dies of the signal.
    [[ $rc == 130 || $rc == 143 ]] || fail "exit status $rc: $(cat "$scratch/err")"
    ((SECONDS <= 10)) || fail "it took $SECONDS s to end"
  done
}

interrupted_twice() {
  for _ in 1 2 3 4 5; do
    rm -f "$scratch/out" "$scratch/err" # of the run before: the shell that starts this one empties them later
    "$program" train "matmul_chain:widths=512$(printf -- '-512%.0s' {1..40}),batch=3072" --devices 2 \
      --parallel data_parallel --steps 20 --json --runtime mpi >"$scratch/out" 2>"$scratch/err" &
    run=$!
    wait_for "$scratch/out" step
    kill -TERM "$run"
    wait_for "$scratch/err" "finishing step\|stopped after step"
    # Between two steps there is none to finish, and a step may end before it is asked again: once more.
    grep -q "stopped after step" "$scratch/err" && { wait "$run" || true; continue; }
    ask_to_end
    grep -q "stopped after step" "$scratch/err" || break
  done
  has_ended_as "shardwright: rank *: interrupted: stopped within step *"
}

# Output that cannot be written ends all ranks.
output() {
  expect_end 2 "shardwright: standard output: cannot be written: No space left on device" 20 \
    bash -c "'$program' train ffn --devices 2 --steps 1000000 --json --runtime mpi >/dev/full"
}

# Under mpirun a training joins, whether it is told to or not; other verbs are no runs of many processes.
joins_mpirun() {
  local start=(mpirun -n 2 --oversubscribe --allow-run-as-root "$program")
  "${start[@]}" train ffn --devices 2 --steps 3 --json >"$scratch/out" 2>"$scratch/err" || fail "$(cat "$scratch/err")"
  [[ $(grep -c '"step"' "$scratch/out") == 3 ]] || fail "$(cat "$scratch/out")"
  "${start[@]}" plan ffn --devices 2 >"$scratch/out" 2>"$scratch/err" && fail "two processes planned"
  [[ $(grep -c "shardwright: plan runs in one process, but mpirun has started 2" "$scratch/err") == 1 ]] ||
    fail "$(cat "$scratch/err")"
  "${start[@]}" train ffn --devices 2 --runtime threads >"$scratch/out" 2>"$scratch/err" && fail "threads ran twice"
  [[ $(grep -c "shardwright: --runtime threads is one process, but mpirun has started 2" "$scratch/err") == 1 ]] ||
    fail "$(cat "$scratch/err")"
  mpirun -n 1 --allow-run-as-root "$program" plan ffn --devices 2 >"$scratch/out" || fail "one process did not plan"
}

# Networks that are only asked say over processes what they say on threads.
asks_and_writes() {
  local decoder=llama:layers=2,hidden=32,heads=4,vocab=64,seq=48 stages runtime
  "$program" data digits --out "$scratch/digits" --train 64 --test 40 2>/dev/null >&2
  "$program" train ffn --data "$scratch/digits" --steps 2 --save "$scratch/ffn" >/dev/null 2>&1
  "$program" train "$decoder" --steps 2 --save "$scratch/decoder" >/dev/null 2>&1
  for stages in 1 2; do
    for runtime in threads mpi; do
      "$program" infer ffn --checkpoint "$scratch/ffn" --data "$scratch/digits" --devices 4 --stages $stages --runtime $runtime \
        --out "$scratch/$runtime.safetensors" --json 2>"$scratch/err" | sed 's/,"seconds".*//' >"$scratch/$runtime" ||
        fail "$(cat "$scratch/err")"
      # One prompt of several is long enough to be fed in one pass.
      "$program" generate "$decoder" --checkpoint "$scratch/decoder" --prompt "$(seq -s, 1 20);7;9,8" --tokens 6 --devices 4 \
        --stages $stages --runtime $runtime >>"$scratch/$runtime" 2>"$scratch/err" || fail "$(cat "$scratch/err")"
    done
    [[ $(wc -l <"$scratch/mpi") == 4 ]] || fail "$(cat "$scratch/mpi")"
    diff "$scratch/threads" "$scratch/mpi" || fail "processes say something else"
    cmp "$scratch/threads.safetensors" "$scratch/mpi.safetensors" || fail "predictions differ"
  done
}

# two WORDS_OF_0 WORDS_OF_1 WORDS...: two ranks, which are told the words of all and each its own, on processors with
# the instructions of `isa`, if it is set.
two() {
  local -a first second all=("${@:3}")
  read -ra first <<<"$1"
  read -ra second <<<"$2"
  timeout 60 mpirun --oversubscribe --allow-run-as-root -n 1 env ${isa:+"ONEDNN_MAX_CPU_ISA=${isa[0]}"} \
    "$program" train "${all[@]}" "${first[@]}" : -n 1 env ${isa:+"ONEDNN_MAX_CPU_ISA=${isa[1]}"} \
    "$program" train "${all[@]}" "${second[@]}" >"$scratch/out" 2>"$scratch/err"
}

# refused LINE WORDS_OF_0 WORDS_OF_1 WORDS...: in this line, by all.
refused() {
  local rc=0
  two "${@:2}" || rc=$?
  [[ $rc == 2 ]] || fail "exit status $rc, not 2, of '$2' and '$3': $(cat "$scratch/err")"
  [[ $(grep '^shardwright: ' "$scratch/err") == "shardwright: $1" ]] ||
    fail "'$2' and '$3' said: $(cat "$scratch/err")"
  ! grep -q '"step"' "$scratch/out" || fail "'$2' and '$3' have trained"
}

# Ranks that were told different things do not start.
told_alike() {
  local words=(ffn --devices 2 --json --steps 2) each file=tests/reference/ffn.safetensors p=$scratch/plan
  for each in "--lr .2:--lr .1" "--seed 2:--seed 1" "--optimizer adam:--optimizer sgd" "--precision bf16:no --precision" \
    "--clip-norm 2:no --clip-norm" "--global-batch 64:--global-batch 32" "--weight-decay .2:--weight-decay .1" \
    "no --trace:--trace $scratch/t.json"; do
    refused "rank 1 was told ${each%%:*}, rank 0 ${each#*:}" "$(flags "${each#*:}")" "$(flags "${each%%:*}")" "${words[@]}"
  done
  refused "rank 1 was told --steps 3, rank 0 --steps 2" "--steps 2" "--steps 3" ffn --devices 2 --json
  refused "rank 1 was told three_layer, rank 0 ffn" "ffn --devices 2" "three_layer --devices 2"
  "$program" plan ffn --devices 2 -o "$p.0.json" >"$scratch/out"
  "$program" plan ffn --devices 2 --parallel data_parallel -o "$p.1.json" >"$scratch/out"
  refused "rank 1 was told --plan $p.1.json, rank 0 --plan $p.0.json" "--plan $p.0.json" "--plan $p.1.json" "${words[@]}"
  refused "rank 1 was told no --init, rank 0 --init $file" "--init $file" "" "${words[@]}"
  refused "rank 1 was told --data $file, rank 0 no --data" "" "--data $file" "${words[@]}"
  # Processors of different kinds want convolutions' images in other blocks, and other networks in none.
  local -a isa=(AVX2 SSE41)
  refused "rank 1 was told the same plan, with kernels of sse41 (ONEDNN_MAX_CPU_ISA says which), rank 0 the same plan, with \
kernels of avx2 (ONEDNN_MAX_CPU_ISA says which)" "" "" resnet18:width=8,image=16,batch=8 --devices 2 --json --steps 1
  two "" "" ffn --devices 2 --json --steps 1 || fail "$(cat "$scratch/err")"
  isa=()
  # Files with the same contents may lie elsewhere, and only the first rank prints.
  cp "$p.0.json" "$p.2.json"
  cp "$file" "$scratch/copy.safetensors"
  two "--plan $p.0.json --data $file --init $file --json --trace $scratch/t.json" \
    "--plan $p.2.json --data $scratch/copy.safetensors --init $scratch/copy.safetensors --log-every 2 --trace t.json" \
    ffn --steps 3 || fail "$(cat "$scratch/err")"
  [[ $(grep -c '"step"' "$scratch/out") == 3 ]] || fail "$(cat "$scratch/out" "$scratch/err")"
}

# flags TOLD: the flags that a message names, none of `no --lr`.
flags() { [[ $1 == no\ * ]] || echo "$1"; }


# Ranks end with what has launched them, and another run goes on at once; who reads beside them finds a whole checkpoint.
killed_launcher() {
  local run words folder i
  for words in "$program" "mpirun -n 2 --oversubscribe --allow-run-as-root $program"; do
    folder=$(mktemp -d -p "$scratch")
    # shellcheck disable=SC2086 # words
    $words train ffn --devices 2 --runtime mpi --steps 1000000 --json --save "$folder" --save-every 1 --keep 1 \
      >"$scratch/out" 2>"$scratch/err" &
    run=$!
    for ((i = 0; i < 200; ++i)); do
      [[ -e $folder/latest ]] && break
      sleep 0.1
    done
    for ((i = 0; i < 20; ++i)); do
      "$program" checkpoint inspect "$folder" >"$scratch/seen" 2>&1 || fail "$(cat "$scratch/seen")"
      "$program" checkpoint inspect "$folder/latest" >"$scratch/seen" 2>&1 || fail "$(cat "$scratch/seen")"
    done
    kill -9 "$run"
    "$program" train ffn --devices 2 --runtime mpi --steps 1000000 --time-limit 1 --json --save "$folder" \
      --resume auto >"$scratch/out" 2>"$scratch/err" || fail "$(cat "$scratch/err")"
    ! grep -q damaged "$scratch/err" || fail "$(cat "$scratch/err")"
    wait "$run" 2>/dev/null || true
  done
}

case $1 in
  same_losses_2) same_losses 2 ;;
  same_losses_8) same_losses 8 ;;
  schedules) schedules ;;
  # Across hosts a rank learns of a failure by being ended, not by an Error.
  contract_on_two_hosts) on_hosts 2 3 '*Contract*:*barrier*' ;;
  losses_on_four_hosts_of_1) on_hosts 4 1 'EndToEnd*' ;;
  losses_on_four_hosts_of_2) on_hosts 4 2 'EndToEnd*' ;;
  hidden_between_hosts) rate=1gbit on_hosts 2 1 'Hosts.kernels*' ;;
  stages_on_two_hosts) on_hosts 2 2 'Hosts.stages*' ;;
  *) "$1" ;;
esac
