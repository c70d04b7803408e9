#!/usr/bin/env bash
# Runs a command under mpirun on hosts that are network namespaces: hosts.sh HOSTS RANKS_PER_HOST COMMAND...
# With rate=1gbit (as tc writes it) in the environment no host sends faster. Needs root, no sshd: mpirun reaches a
# host through this script (--agent NAME ADDRESS COMMAND...), which enters its network and its own host name.
# Everything is named after this process and removed at the end. With 0 ranks a host, COMMAND itself runs on the first, and
# finds in OMPI_MCA_plm_rsh_agent how to reach 10.77.0.10 and those behind it.
set -euo pipefail

if [[ $1 == --agent ]]; then
  name=$2-$((${3##*.} - 10))
  shift 3
  exec ip netns exec "$name" unshare --uts bash -c "hostname $name; $*"
fi

hosts=$1 ranks=$2 name=sw$$
shift 2
hostfile=$(mktemp)

remove() {
  for ((i = 0; i < hosts; ++i)); do
    ip netns pids "$name-$i" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip link del "v$i$name" 2>/dev/null || true
    ip netns del "$name-$i" 2>/dev/null || true
  done
  ip link del "b$name" 2>/dev/null || true
  rm -f "$hostfile"
}
trap remove EXIT

ip link add "b$name" type bridge
ip link set "b$name" up
for ((i = 0; i < hosts; ++i)); do
  ip netns add "$name-$i"
  ip link add "v$i$name" type veth peer name eth0 netns "$name-$i"
  ip link set "v$i$name" master "b$name" up
  ip -n "$name-$i" addr add "10.77.0.$((10 + i))/24" dev eth0
  ip -n "$name-$i" link set eth0 up
  ip -n "$name-$i" link set lo up
  if [[ ${rate:-} ]]; then
    ip netns exec "$name-$i" tc qdisc add dev eth0 root handle 1: htb default 1
    ip netns exec "$name-$i" tc class add dev eth0 parent 1: classid 1:1 htb rate "$rate" quantum 60000
  fi
  echo "10.77.0.$((10 + i)) slots=$ranks" >>"$hostfile"
done

if ((ranks == 0)); then
  OMPI_MCA_plm_rsh_agent="$(realpath "$0") --agent $name"
  export OMPI_MCA_plm_rsh_agent
  ip netns exec "$name-0" unshare --uts bash -c "hostname $name-0; exec \"\$@\"" x "$@"
  exit
fi
ip netns exec "$name-0" unshare --uts bash -c "hostname $name-0; exec \"\$@\"" x \
  mpirun -n $((hosts * ranks)) --allow-run-as-root --hostfile "$hostfile" --bind-to none \
  --mca plm_rsh_agent "$(realpath "$0") --agent $name" --mca plm_rsh_no_tree_spawn 1 \
  --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
  --mca pml ob1 --mca btl vader,tcp,self --mca mpi_yield_when_idle 1 "$@"
