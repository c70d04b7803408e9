#!/usr/bin/env bash
# shellcheck disable=SC2016 # variables for the shells of ranks and hosts
# `launch` starts jobs in every way there is, with the losses of threads, and leaves nothing behind:
# launch_test.sh TEST PROGRAM. Tests called on_hosts_... run on hosts that are network namespaces, which need root.
set -euo pipefail
cd "$(dirname "$0")/../.."

test=$1 program=$(realpath "$2")
if [[ $test == on_hosts_* && -z ${LAUNCH_TEST_HOST-} ]]; then
  if ((EUID != 0)) || ! ip netns add "swtest$$" 2>/dev/null; then
    echo "skipped: hosts are network namespaces, which only root can make"
    exit 77
  fi
  ip netns del "swtest$$"
  hosts=3
  [[ $test != on_hosts_survive* ]] || hosts=4
  LAUNCH_TEST_HOST=0 exec tests/support/net/hosts.sh $hosts 0 "$0" "$test" "$program"
fi

reach=${OMPI_MCA_plm_rsh_agent-} # on hosts that are namespaces: in front of an address and a command
scratch=$(mktemp -d)
export TMPDIR=$scratch # for what jobs leave, too
trap '[[ $BASHPID != "$$" ]] || rm -rf "$scratch"' EXIT
# shellcheck source=tests/end_to_end/waiting.sh
source tests/end_to_end/waiting.sh

model=("llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=64,seq=8,batch=16" --optimizer adamw --json)

# steps FILE: its losses, of a step that was run twice the last ones.
steps() { grep -o '"step":[0-9]*,"loss":[^,}]*' "$1" | tac | sort -t: -k2,2n -u -s; }

# same_losses FILE WORDS...: as threads have them.
same_losses() {
  "$program" train "${@:2}" >"$scratch/threads" 2>/dev/null
  steps "$1" >"$scratch/got"
  steps "$scratch/threads" | diff - "$scratch/got" >"$scratch/difference" || fail "other losses: $(head -n 4 "$scratch/difference")"
  [[ -s $scratch/got ]] || fail "no losses"
}

# leaves_nothing: neither processes nor folders; what was killed may take a moment.
leaves_nothing() {
  local left i
  for ((i = 0; i < 100; ++i)); do
    left=$(find "$scratch" /dev/shm -maxdepth 1 -name 'shardwright-[jk]*' -newer "$scratch/begun"
      pgrep -af -- "$scratch" | grep -v launch_test || true)
    [[ $left ]] || return 0
    sleep 0.1
  done
  fail "left behind: $left"
}
touch "$scratch/begun"

# refused STATUS LINE WORDS...: by launch, in one line.
refused() {
  local rc=0
  "$program" launch "${@:3}" >"$scratch/out" 2>"$scratch/err" || rc=$?
  # shellcheck disable=SC2053 # the line is a pattern
  [[ $rc == "$1" && $(<"$scratch/err") == $2 && ! -s $scratch/out ]] || fail "launch ${*:3}: $rc, $(cat "$scratch/err")"
}

# The first rank speaks; each has its log.
logs() {
  "$program" launch --devices 2 --log-dir "$scratch/logs" -- train "${model[@]}" --steps 6 >"$scratch/out" 2>"$scratch/err" ||
    fail "$(cat "$scratch/err")"
  same_losses "$scratch/out" "${model[@]}" --steps 6 --devices 2
  cmp "$scratch/out" "$scratch/logs/1/rank.0/stdout" || fail "the first rank's log is another"
  "$program" launch --devices 3 --log-dir "$scratch/logs" -- sh -c 'echo "I am $OMPI_COMM_WORLD_RANK"' >"$scratch/out"
  [[ $(<"$scratch/out") == "I am 0" ]] || fail "$(cat "$scratch/out")"
  for rank in 0 1 2; do
    [[ $(<"$scratch/logs/1/rank.$rank/stdout") == "I am $rank" ]] || fail "log of rank $rank"
  done
  # Without logs there is no other place for what they say.
  "$program" launch --devices 3 -- sh -c 'echo "I am $OMPI_COMM_WORLD_RANK"' | sort >"$scratch/out"
  [[ $(<"$scratch/out") == $'I am 0\nI am 1\nI am 2' ]] || fail "$(cat "$scratch/out")"
  leaves_nothing
}

errors() {
  local table='{"server_list": [{"server_id": "localhost", "device": [{"rank_id": "0"}, {"rank_id": "2"}]}]}'
  refused 2 "shardwright: launch needs -- PROGRAM..." --devices 2
  refused 2 "shardwright: 'train' stands in front of --*" --devices 2 train ffn
  refused 2 "shardwright: there is no program 'no-such' to launch*" --devices 2 -- no-such
  refused 2 "shardwright: there is no file 'no-such.py' to launch" --devices 2 -- no-such.py
  refused 2 "shardwright: plan runs in one process;*" --devices 2 -- plan ffn
  refused 2 "shardwright: --devices 3 but train is for 2" --devices 3 -- train ffn --devices 2
  refused 2 "shardwright: flag '--lrr' is unknown to train*" --devices 2 -- train ffn --lrr 1
  refused 2 "shardwright: launch: how many devices are there?*" -- train ffn
  printf 'localhost slots=2\n' >"$scratch/hosts"
  refused 2 "shardwright: --devices 3 but $scratch/hosts has 2 slots on 1 host" --devices 3 --hosts "$scratch/hosts" -- train ffn
  refused 2 "shardwright: --hosts and --rank-table: give one of them" --hosts "$scratch/hosts" --rank-table x -- train ffn
  echo "$table" >"$scratch/table"
  refused 2 "shardwright: $scratch/table: rank 1 is missing; the largest is 2" --rank-table "$scratch/table" -- train ffn
  refused 2 "shardwright: --restarts 2: goes on from the last checkpoint; give train --save*" --devices 2 --restarts 2 -- train ffn
  refused 2 "shardwright: --elastic says how to restart*" --hosts "$scratch/hosts" --elastic -- train ffn --save "$scratch/r"
  refused 2 "shardwright: --survive 1: the job has 1 host; give more, with --hosts FILE" --devices 2 --survive 1 --restarts 1 -- train ffn
  refused 2 "shardwright: --survive 0 says what the job goes on from; give --restarts K, too" --devices 2 --survive 0 -- train ffn
  refused 2 "shardwright: --survive-every 3 says how often; give --survive F, too" --devices 2 --survive-every 3 -- train ffn
  refused 2 "shardwright: --survive 1: keeps copies of what train trains; of sh *" --devices 2 --survive 1 --restarts 1 -- sh -c true
  refused 2 "shardwright: --survive 0 but train is told 1" --devices 2 --survive 0 --restarts 1 -- train ffn --survive 1
  refused 2 "shardwright: --net no9: is no network of this host; there are lo*" --net no9 --devices 2 -- train ffn
  refused 2 "shardwright: --master-addr h: --nodes is missing*" --devices 2 --master-addr h --master-port 2000 --node-rank 0 -- train ffn
  # Another program has the port.
  /usr/bin/python3 -c 'import socket, time
s = socket.socket(); s.bind(("", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(60)' >"$scratch/port" &
  local other=$!
  wait_for "$scratch/port" '[0-9]'
  refused 2 "shardwright: --master-port $(<"$scratch/port"): is taken by another program on this host*" \
    --devices 2 --master-addr localhost --master-port "$(<"$scratch/port")" --node-rank 0 --nodes 2 -- train ffn
  kill "$other"
  refused 2 "shardwright: nodes 1, 2 of 3 have not come within 1 s" --timeout 1s \
    --devices 3 --master-addr localhost --master-port "$(free_port)" --node-rank 0 --nodes 3 -- train ffn
  refused 2 "shardwright: node 0 at localhost:* does not answer within 1 s: Connection refused" --timeout 1s \
    --devices 3 --master-addr localhost --master-port "$(free_port)" --node-rank 1 --nodes 3 -- train ffn
}

free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }

# A rank is killed; the losses are those of a run that nobody disturbed.
restarts() {
  local words=("${model[@]}" --steps 400 --devices 2) run mpirun rc=0
  "$program" launch --restarts 1 -- train "${words[@]}" --save "$scratch/run" --save-every 50 >"$scratch/out" 2>"$scratch/err" &
  run=$!
  wait_for "$scratch/out" '"step":120,'
  mpirun=$(pgrep -P "$run" -x mpirun)
  kill -9 "$(pgrep -P "$mpirun" | tail -n 1)"
  wait "$run" || rc=$?
  [[ $rc == 0 ]] || fail "exit status $rc: $(cat "$scratch/err")"
  grep -Eq "^shardwright: restart 1 of 1: rank 1 on .* (has died|was ended by signal 9).*; goes on from $scratch/run/step-0000" \
    "$scratch/err" || fail "$(cat "$scratch/err")"
  grep -q '^{"restart":{"number":1,"of":1,"why":"rank 1 on .*,"devices":2}}$' "$scratch/out" || fail "no line of JSON"
  same_losses "$scratch/out" "${words[@]}"
  leaves_nothing
}

# start_nodes HOSTS WORDS...: the same command for each node; their processes are `nodes`, their output out.N and err.N.
start_nodes() {
  local n
  nodes=()
  for ((n = 0; n < $1; ++n)); do
    "$program" launch --node-rank "$n" --nodes "$1" "${@:2}" >"$scratch/out.$n" 2>"$scratch/err.$n" &
    nodes+=($!)
  done
}

# Two nodes on one host; a third that was told something else does not take part.
nodes() {
  local n rc=0 words=(--devices 4 --master-addr localhost --master-port "$(free_port)")
  start_nodes 2 "${words[@]}" -- train "${model[@]}" --steps 6
  for n in 0 1; do wait "${nodes[n]}" || fail "node $n: $(cat "$scratch/err.$n")"; done
  same_losses "$scratch/out.0" "${model[@]}" --steps 6 --devices 4
  [[ ! -s $scratch/out.1 ]] || fail "node 1 says $(cat "$scratch/out.1")"
  # What other programs print is shown where they run.
  start_nodes 2 "${words[@]}" -- sh -c 'echo "I am $OMPI_COMM_WORLD_RANK"'
  for n in 0 1; do wait "${nodes[n]}" || fail "node $n: $(cat "$scratch/err.$n")"; done
  [[ $(sort "$scratch/out.1") == $'I am 2\nI am 3' ]] || fail "node 1 says $(cat "$scratch/out.1")"
  start_nodes 1 "${words[@]}" --timeout 3s -- train ffn --steps 1 # alone, and so never begun with
  wait "${nodes[0]}" || fail "one node: $(cat "$scratch/err.0")"
  "$program" launch --nodes 2 --node-rank 0 "${words[@]}" --timeout 2s -- train ffn >"$scratch/out" 2>"$scratch/err.0" &
  "$program" launch --nodes 2 --node-rank 1 "${words[@]}" -- train ffn --lr 2 >"$scratch/out" 2>"$scratch/err.1" || rc=$?
  [[ $rc == 2 && $(<"$scratch/err.1") == *"node 1 was told \`--devices 4 -- train ffn --lr 2\`, node 0 \`--devices 4 -- train ffn\`" ]] ||
    fail "$rc: $(cat "$scratch/err.1")"
  wait
  leaves_nothing
}

# The scheduler and the workers run the same command; the first worker has the first rank's output.
dynamic_networking() {
  local n workers=() words=(train "${model[@]}" --steps 6)
  export MS_WORKER_NUM=3 MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT
  MS_SCHED_PORT=$(free_port)
  for n in 0 1 2; do
    MS_ROLE=MS_WORKER MS_NODE_ID=$n "$program" "${words[@]}" >"$scratch/out.$n" 2>"$scratch/err.$n" &
    workers+=($!)
  done
  MS_ROLE=MS_SCHED "$program" "${words[@]}" >"$scratch/out" 2>"$scratch/err" || fail "$(cat "$scratch/err")"
  for n in 0 1 2; do wait "${workers[n]}" || fail "worker $n: $(cat "$scratch/err.$n")"; done
  unset MS_WORKER_NUM MS_SCHED_HOST MS_SCHED_PORT
  [[ ! -s $scratch/out ]] || fail "the scheduler says $(cat "$scratch/out")"
  same_losses "$scratch/out.0" "${model[@]}" --steps 6 --devices 3
  MS_ROLE=MS_WORKER "$program" train ffn >"$scratch/out" 2>&1 && fail "no number of workers, and it ran"
  [[ $(<"$scratch/out") == "shardwright: MS_ROLE=MS_WORKER: MS_WORKER_NUM is missing" ]] || fail "$(cat "$scratch/out")"
  leaves_nothing
}

# Each process is told which rank of a table it is; any program can be started so.
rank_table() {
  local n tasks=() words=(train "${model[@]}" --steps 6)
  echo '{"server_list": [{"server_id": "127.0.0.1", "device": [{"rank_id": 0}, {"rank_id": 1}]}]}' >"$scratch/table"
  export RANK_TABLE_FILE=$scratch/table
  for n in 1 0; do
    RANK_ID=$n "$program" "${words[@]}" --net lo >"$scratch/out.$n" 2>"$scratch/err.$n" &
    tasks+=($!)
  done
  for n in "${tasks[@]}"; do wait "$n" || fail "$(cat "$scratch"/err.?)"; done
  tasks=()
  for n in 1 0; do
    RANK_ID=$n "$program" launch -- sh -c 'echo "I am $OMPI_COMM_WORLD_RANK"' >"$scratch/said.$n" 2>"$scratch/err.$n" &
    tasks+=($!)
  done
  for n in "${tasks[@]}"; do wait "$n" || fail "$(cat "$scratch"/err.?)"; done
  [[ $(cat "$scratch"/said.?) == $'I am 0\nI am 1' ]] || fail "$(cat "$scratch"/said.?)"
  RANK_ID=2 "$program" train ffn >"$scratch/out" 2>&1 && fail "a rank that is not in the table, and it ran"
  [[ $(<"$scratch/out") == "shardwright: RANK_ID"* ]] || fail "$(cat "$scratch/out")"
  unset RANK_TABLE_FILE
  same_losses "$scratch/out.0" "${model[@]}" --steps 6 --devices 2
  leaves_nothing
}

# `train --net` where mpirun, or train itself, starts ranks.
net() {
  "$program" train "${model[@]}" --steps 6 --devices 2 --runtime mpi --net lo >"$scratch/out" 2>"$scratch/err" || fail "$(cat "$scratch/err")"
  same_losses "$scratch/out" "${model[@]}" --steps 6 --devices 2
  "$program" train ffn --devices 2 --runtime mpi --net no9 >"$scratch/out" 2>"$scratch/err" && fail "no such network, and it ran"
  [[ $(<"$scratch/err") == "shardwright: --net no9: is no network of this host; there are lo"* ]] || fail "$(cat "$scratch/err")"
  "$program" train ffn --devices 2 --net lo >"$scratch/out" 2>"$scratch/err" && fail "threads with a network, and it ran"
  [[ $(<"$scratch/err") == "shardwright: --net has no effect on "* ]] || fail "$(cat "$scratch/err")"
}

# What an srun sets whose Open MPI knows no PMIx.
srun() {
  local n tasks=()
  export SLURM_JOB_ID=$$ SLURM_STEP_ID=3 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost
  for n in 1 0; do
    SLURM_PROCID=$n "$program" train "${model[@]}" --steps 6 >"$scratch/out.$n" 2>"$scratch/err.$n" &
    tasks+=($!)
  done
  for n in "${tasks[@]}"; do wait "$n" || fail "$(cat "$scratch"/err.?)"; done
  same_losses "$scratch/out.0" "${model[@]}" --steps 6 --devices 2
  leaves_nothing
}

on_hosts() { printf '10.77.0.%s\n' "$@" >"$scratch/hosts"; }

# Data, tensor and stages between hosts: to the last digit as threads where sums are taken in the same order, else nearly.
on_hosts_losses() {
  local split
  on_hosts '10 slots=2' 11 12
  echo '{"server_list": [{"server_id": "10.77.0.11", "device": [{"rank_id": 0}, {"rank_id": 3}]},
    {"server_id": "10.77.0.10", "device": [{"rank_id": 1}, {"rank_id": 2}]}]}' >"$scratch/table"
  for split in "--parallel data_parallel" "--set dp=1,tp=4" "--stages 4 --micro-batches 4" "--set dp=2,tp=2"; do
    for how in "--hosts $scratch/hosts" "--rank-table $scratch/table --net eth0"; do
      # shellcheck disable=SC2086 # words
      "$program" launch $how -- train "${model[@]}" --devices 4 $split --steps 8 >"$scratch/out" 2>"$scratch/err" ||
        fail "$how $split: $(cat "$scratch/err")"
      # shellcheck disable=SC2086
      "$program" train "${model[@]}" --devices 1 --steps 8 >"$scratch/one" 2>/dev/null
      paste -d: <(steps "$scratch/one") <(steps "$scratch/out") | awk -F: '{ d = $3 - $6; if ($3 == "" || d * d > 1e-9) exit 1 }
        END { if (NR != 8) exit 1 }' || fail "$how $split: $(steps "$scratch/out")"
    done
  done
  on_hosts 10 77
  refused 2 "shardwright: host 10.77.0.77 cannot be reached: *" --hosts "$scratch/hosts" -- train ffn
  leaves_nothing
}

# A host goes, and its job goes on with the others; as is said by mpirun's daemons, and by the nodes themselves.
on_hosts_lost() {
  local words=("${model[@]}" --steps 300 --save-every 50) run n rc=0
  on_hosts 10 11 12
  "$program" launch --hosts "$scratch/hosts" --restarts 1 --elastic -- train "${words[@]}" --save "$scratch/run" \
    >"$scratch/out" 2>"$scratch/err" &
  run=$!
  wait_for "$scratch/out" '"step":120,'
  # shellcheck disable=SC2046 # numbers
  kill -9 $(daemons_on 12)
  wait "$run" || rc=$?
  [[ $rc == 0 ]] || fail "exit status $rc: $(cat "$scratch/err")"
  grep -q 'restart 1 of 1: host 10.77.0.12 is lost: .*, planned anew for 2 devices$' "$scratch/err" || fail "$(cat "$scratch/err")"
  [[ $(steps "$scratch/out" | wc -l) == 300 ]] || fail "steps are missing"

  nodes=()
  for n in 0 1 2; do
    $reach "10.77.0.1$n" exec "$program" launch --devices 3 --nodes 3 --node-rank "$n" --master-addr 10.77.0.10 \
      --master-port 9100 --restarts 1 --elastic --timeout 3s -- train "${words[@]}" --save "$scratch/run.n" \
      >"$scratch/out.$n" 2>"$scratch/err.$n" &
    nodes+=($!)
  done
  wait_for "$scratch/out.0" '"step":120,'
  # shellcheck disable=SC2046 # numbers
  $reach 10.77.0.12 ip link set eth0 down # from here on it answers nobody
  wait "${nodes[0]}" || rc=$?
  [[ $rc == 0 ]] || fail "exit status $rc: $(cat "$scratch/err.0")"
  grep -q 'restart 1 of 1: node 2 (10.77.0.12) is lost: it gives no sign of life for [345] s; .*, planned anew for 2 devices$' \
    "$scratch/err.0" || fail "$(cat "$scratch/err.0")"
  wait "${nodes[1]}" || fail "node 1: $(cat "$scratch/err.1")"
  wait "${nodes[2]}" && fail "node 2 has ended well"
  grep -q "shardwright: node 0 (10.77.0.10:9100) is lost: it gives no sign of life" "$scratch/err.2" || fail "$(cat "$scratch/err.2")"
  leaves_nothing
}

# lose_host N: all that runs there ends at once, and its memory is gone.
lose_host() {
  local name
  name=$($reach "10.77.0.$1" hostname)
  ip netns pids "$name" | xargs -r kill -9 2>/dev/null || true
  rm -rf /dev/shm/*-"$name"
}

# survives HOST STEP WORDS...: that host is lost behind that step. The job goes on from memory, one save behind at most.
survives() {
  local run rc=0 begun step
  "$program" launch --hosts "$scratch/hosts" --survive 1 --restarts 1 -- train "${@:3}" >"$scratch/out" 2>"$scratch/err" &
  run=$!
  wait_for "$scratch/out" "\"step\":$2,"
  begun=$(date +%s%N)
  lose_host "$1"
  wait_for "$scratch/out" '"resumed"'
  echo "host $1 lost behind step $2: goes on after $((($(date +%s%N) - begun) / 1000000)) ms"
  wait "$run" || rc=$?
  [[ $rc == 0 ]] || fail "exit status $rc: $(cat "$scratch/err")"
  grep -q "restart 1 of 1: host 10.77.0.$1 is lost: .*; goes on from copies in memory" "$scratch/err" || fail "$(cat "$scratch/err")"
  step=$(grep -o '"from":"copies","step":[0-9]*' "$scratch/out" | grep -o '[0-9]*$')
  ((step >= $2 - 1)) || fail "goes on from step $step, and the host was lost behind $2"
}

# Any host but that of the launcher, at any moment: by the same plan, for there is a host to spare, to the last bit; and planned
# anew for those that are left. Where the plan has the state on one host alone copies are sent, where it is replicated they
# are there. There is no folder for checkpoints at all.
on_hosts_survive() {
  local of_three=("llama:layers=3,hidden=48,heads=3,kv_heads=3,ffn=48,vocab=66,seq=8,batch=12" --optimizer adamw --json --steps 150)
  local words=("${of_three[@]}" --devices 3) split
  on_hosts 10 11 12 13
  for split in "--stages 3 --micro-batches 4" "--set dp=1,tp=3" "--parallel data_parallel"; do
    # shellcheck disable=SC2086 # words
    survives $((11 + RANDOM % 2)) $((20 + RANDOM % 100)) "${words[@]}" $split
    grep -q 'planned anew' "$scratch/err" && fail "$(cat "$scratch/err")"
    # shellcheck disable=SC2086
    same_losses "$scratch/out" "${words[@]}" $split
    leaves_nothing
  done
  words=("${of_three[@]}")
  survives $((11 + RANDOM % 3)) $((20 + RANDOM % 40)) "${words[@]}"
  grep -q ', planned anew for 3 devices$' "$scratch/err" || fail "$(cat "$scratch/err")"
  "$program" train "${words[@]}" --devices 1 >"$scratch/one" 2>/dev/null
  paste -d: <(steps "$scratch/one") <(steps "$scratch/out") | awk -F: '{ d = $3 - $6; if ($3 == "" || d * d > 1e-7) exit 1 }
    END { if (NR != 150) exit 1 }' || fail "other losses: $(steps "$scratch/out" | tail -n 3)"
  refused 2 "shardwright: --survive 4: the job has 4 hosts; 3 of them may be lost at most" \
    --hosts "$scratch/hosts" --survive 4 --restarts 1 -- train ffn
  leaves_nothing
}

# The same between nodes that have gathered; one whose link goes down.
on_hosts_survive_gathered() {
  local words=("${model[@]}" --steps 200) n rc=0 step
  nodes=()
  for n in 0 1 2 3; do
    $reach "10.77.0.1$n" exec "$program" launch --devices 4 --nodes 4 --node-rank "$n" --master-addr 10.77.0.10 \
      --master-port 9100 --restarts 1 --survive 2 --survive-every 2 --timeout 3s -- train "${words[@]}" >"$scratch/out.$n" 2>"$scratch/err.$n" &
    nodes+=($!)
  done
  wait_for "$scratch/out.0" '"step":81,'
  # shellcheck disable=SC2046 # numbers
  $reach 10.77.0.12 ip link set eth0 down
  wait "${nodes[0]}" || rc=$?
  [[ $rc == 0 ]] || fail "exit status $rc: $(cat "$scratch/err.0")"
  grep -q 'restart 1 of 1: node 2 .*; goes on from copies in memory, planned anew for 3 devices$' "$scratch/err.0" || fail "$(cat "$scratch/err.0")"
  step=$(grep -o '"from":"copies","step":[0-9]*' "$scratch/out.0" | grep -o '[0-9]*$')
  ((step >= 78)) || fail "goes on from step $step"
  [[ $(steps "$scratch/out.0" | wc -l) == 200 ]] || fail "steps are missing"
  for n in 1 3; do wait "${nodes[n]}" || fail "node $n: $(cat "$scratch/err.$n")"; done
  leaves_nothing
}

# daemons_on N: mpirun's, on that host.
daemons_on() { $reach "10.77.0.$1" 'ip netns pids $(hostname)' | xargs ps -o pid=,comm= -p | awk '$2 == "orted" { print $1 }'; }

# A hundred in a row.
on_hosts_many() {
  local i
  on_hosts 10 11
  for ((i = 0; i < 100; ++i)); do
    "$program" launch --hosts "$scratch/hosts" -- train ffn --steps 1 >"$scratch/out" 2>"$scratch/err" || fail "start $i: $(cat "$scratch/err")"
  done
  leaves_nothing
}

"$test"
