# shellcheck shell=bash
# What tests of whole runs share: a failure, and waiting for what a run in the background writes.

fail() {
  echo "$*" >&2
  exit 1
}

# wait_for FILE WORD: until WORD stands there.
wait_for() {
  for ((i = 0; i < 1000; ++i)); do
    grep -qs "$2" "$1" && return
    sleep 0.02
  done
  fail "no '$2' in: $(cat "$1")"
}
