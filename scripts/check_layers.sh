#!/usr/bin/env bash
# A file includes only its own folder and folders to the left of it; prints each violation as file:line.
# Usage: scripts/check_layers.sh [FOLDER that holds shardwright/]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# Folders on one line are peers: neither includes the other.
layers='base
layout tokenizer
graph
ops
autodiff
cost
plan
annotations
lower
passes
simulate verify
search
explain
exchange
runtime
training
frontend
cli python'

# shellcheck disable=SC2016 # awk's own $
find shardwright -type f \( -name '*.h' -o -name '*.cpp' \) | sort | LAYERS=$layers xargs -r awk '
  BEGIN {
    lines = split(ENVIRON["LAYERS"], line, "\n")
    for (i = 1; i <= lines; ++i) {
      peers = split(line[i], peer, " ")
      for (j = 1; j <= peers; ++j) height[peer[j]] = i
    }
  }
  FNR == 1 {
    parts = split(FILENAME, part, "/")
    own = parts > 2 ? part[2] : ""  # shardwright/shardwright.h has no folder and may include all
    if (own != "" && !(own in height)) violation("folder " own " has no place in the order of layers")
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    path = quoted[2]
    if (path !~ /^shardwright\/[a-z_]+\//) violation("\"" path "\" must be included as \"shardwright/FOLDER/...\"")
    else if (own != "") {
      split(path, part, "/")
      other = part[2]
      if (!(other in height)) violation("folder " other " has no place in the order of layers")
      else if (other != own && height[other] >= height[own]) violation(own " must not include " other ": " path)
    }
  }
  function violation(text) {
    print FILENAME ":" FNR ": " text
    found = 1
  }
  END { exit found }'
