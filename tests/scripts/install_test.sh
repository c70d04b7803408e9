#!/usr/bin/env bash
# What is installed serves a project elsewhere, a shell and man: install_test.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "install_test.sh: $*" >&2
  exit 1
}

cmake --install "$1" --prefix "$scratch/installed" >"$scratch/log" || fail "$(tail "$scratch/log")"
cp -r examples/outside "$scratch/outside"
cd "$scratch"
if ! {
  cmake -S outside -B built -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$scratch/installed" &&
    cmake --build built
} >log 2>&1; then fail "$(tail -30 log)"; fi
[[ $(built/outside) == $'loss is 16.0000\nloss is 5.7600\nloss is 2.0736' ]] || fail "$(built/outside)"

installed/bin/shardwright plan ffn --devices 2 >/dev/null
grep -qF '.B \-\-devices' installed/share/man/man1/shardwright.1 || fail "the manual page tells no flags"
# shellcheck source=/dev/null
source installed/share/bash-completion/completions/shardwright
completions() { # WORDS, the last being completed
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _shardwright
  echo "${COMPREPLY[*]}"
}
[[ $(completions shardwright tr) == train ]] || fail "completes $(completions shardwright tr)"
[[ $(completions shardwright train ffn --lr-s) == --lr-schedule ]] || fail "flags of train"
[[ $(completions shardwright train outs) == outside ]] || fail "files"
head -1 installed/share/zsh/site-functions/_shardwright | grep -qx '#compdef shardwright' || fail "zsh"
! command -v zsh >/dev/null || zsh -n installed/share/zsh/site-functions/_shardwright
