#!/usr/bin/env bash
# Training over processes gives the losses of threads, and ends as it should: mpi_test.sh TEST PROGRAM [MPI_TESTS]
# With SHARDWRIGHT_FULL=1 more plans are compared.
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

# Plans of the reference networks, for 2 and 8 devices.
reference=tests/reference
ffn="ffn --data $reference/ffn.safetensors --init $reference/ffn.safetensors --optimizer momentum --lr 0.05"
three_layer="three_layer --data $reference/three_layer_sgd.safetensors --lr 0.05"
mae="three_layer_mae --data $reference/three_layer_mae.safetensors --optimizer momentum --lr 0.01 --momentum 0.1"
chain="matmul_chain --data $reference/matmul_chain.safetensors --optimizer adam"
plans=(
  "$ffn --parallel data_parallel"
  "$ffn --annotate $scratch/ffn_N.json"
  "$three_layer --annotate $scratch/three_layer_N.json --optimizer-parallel 1"
  "$mae --parallel auto_parallel"
  "$chain --annotate $scratch/chain_N.json --optimizer-parallel 3"
)
if [[ ${SHARDWRIGHT_FULL:-} ]]; then
  plans+=("$ffn --annotate $scratch/ffn_N.json --optimizer-parallel 3" "$three_layer --parallel data_parallel"
    "$mae --parallel data_parallel --optimizer-parallel 1" "$chain --parallel data_parallel --precision bf16")
fi
for n in 2 4 8; do
  cat >"$scratch/ffn_$n.json" <<<"{\"dense1.matmul\": {\"in\": [[2, $((n / 2))], [$((n / 2)), 1]]},
    \"dense3.matmul\": {\"in\": [[1, $n], [$n, 1]]}}"
  cat >"$scratch/three_layer_$n.json" <<<"{\"dense1.matmul\": {\"in\": [[1, 1], [1, $n]]},
    \"relu1\": {\"in\": [[$n, 1]]}, \"dense2.matmul\": {\"in\": [[2, 1], [1, $((n / 2))]]}}"
  cat >"$scratch/chain_$n.json" <<<"{\"matmul1\": {\"in\": [[1, 1], [1, $n]]},
    \"matmul2\": {\"in\": [[1, $n], [$n, 1]]}}"
done

# losses COMMAND...: the lines of its steps
losses() { "$@" --json --steps 5 | grep '"step"'; }

same_losses() {
  local plan n words
  for n in "$@"; do
    for plan in "${plans[@]}"; do
      read -ra words <<<"${plan//_N/_$n} --devices $n"
      losses "$program" train "${words[@]}" >"$scratch/threads"
      losses "$program" train "${words[@]}" --runtime mpi >"$scratch/mpi"
      diff "$scratch/threads" "$scratch/mpi" || fail "the losses differ: train ${words[*]}"
    done
  done
}

# The hosts sum in another order than threads, so losses agree to six digits.
two_hosts() {
  local plan words
  for plan in "${plans[@]}"; do
    read -ra words <<<"${plan//_N/_4} --devices 4"
    losses "$program" train "${words[@]}" >"$scratch/threads"
    losses tests/support/net/hosts.sh 2 2 "$(realpath "$program")" train "${words[@]}" --runtime mpi >"$scratch/mpi"
    paste -d ' ' <(tr -dc '0-9.\n:e-' <"$scratch/threads" | cut -d: -f3) \
      <(tr -dc '0-9.\n:e-' <"$scratch/mpi" | cut -d: -f3) |
      awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-5 * $1) exit 1; n++ } END { exit n != 5 }' ||
      fail "the losses differ: train ${words[*]}: $(paste "$scratch/threads" "$scratch/mpi")"
  done
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
  ((rc != 0 && SECONDS <= 10)) || fail "exit status $rc after $SECONDS s"
  grep -q '^shardwright: rank 2 on .* was ended by signal 9' "$scratch/err" || fail "$(cat "$scratch/err")"
}

interrupted() {
  "$program" train ffn --devices 4 --steps 1000000 --json --runtime mpi >"$scratch/out" 2>"$scratch/err" &
  local run=$! rc=0
  for ((i = 0; i < 200; ++i)); do
    [[ -s $scratch/out ]] && break
    sleep 0.1
  done
  kill -TERM "$run"
  wait "$run" || rc=$?
  [[ $rc == 130 ]] || fail "exit status $rc: $(cat "$scratch/err")"
}

case $1 in
  same_losses_2) same_losses 2 ;;
  same_losses_8) same_losses 8 ;;
  contract_on_two_hosts | losses_on_two_hosts)
    if ((EUID != 0)) || ! ip netns add "swtest$$" 2>/dev/null; then
      echo "skipped: hosts are network namespaces, which only root can make"
      exit 77
    fi
    ip netns del "swtest$$"
    if [[ $1 == losses_on_two_hosts ]]; then
      two_hosts
    else
      # Across hosts a rank learns of a failure by being ended, not by an Error.
      tests/support/net/hosts.sh 2 3 "$(realpath "$3")" --gtest_brief=1 --gtest_filter='*Contract*:*barrier*'
    fi
    ;;
  *) "$1" ;;
esac
