#!/usr/bin/env bash
# What the documents show is true: runs each command of their ```console blocks (behind `$ `) and compares what it
# prints; a line `...` stands for the rest. C++ blocks of the README and of docs/add-an-operator.md are files.
# SHARDWRIGHT_UPDATE_GOLDENS=1 writes into the documents what is printed now.
# Usage: tests/scripts/docs_test.sh FOLDER that holds shardwright, tests/toy_shardwright, examples/ and python/
set -uo pipefail
build=$(realpath "$1")
export PATH="$build:$build/tests:$build/examples:$PATH"
unset DATA_PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export scratch
# The packages of the build, and the system's interpreter, which they are built for.
export PYTHONPATH="$build/python" PYTHONDONTWRITEBYTECODE=1
mkdir "$scratch/bin"
ln -s /usr/bin/python3 "$scratch/bin/python3"
export PATH="$scratch/bin:$PATH"
failed=0 count=0

# Times differ from run to run.
steady() { sed -E 's/[0-9.e-]+ ms a step/T ms a step/; s/("search_seconds": ?)[0-9.e-]+/\1T/'; }

check() { # DOCUMENT COMMAND WANTED; what stands there from now on is `shown`
  local printed got want=$3 rest=''
  shown=$3
  printed=$(bash -c "$2" 2>&1)
  [[ $want == *$'\n...' ]] && rest=$'\n...' want=${want%$'\n...'}
  [[ -n $rest ]] && printed=$(head -n "$(wc -l <<<"$want")" <<<"$printed")
  got=$(steady <<<"$printed")
  want=$(steady <<<"$want")
  ((++count))
  [[ $got == "$want" ]] && return
  [[ -n ${SHARDWRIGHT_UPDATE_GOLDENS-} ]] && shown=$printed$rest && return
  echo "docs_test.sh: $1: \$ $2"
  diff <(echo "$want") <(echo "$got")
  failed=1
}

# shellcheck disable=SC2094 # check only prints the document's name
for document in README.md docs/*.md docs/decisions/*.md; do
  command='' wanted='' inside=0 now=''
  while IFS= read -r line; do
    if ((inside)) && [[ $line == '$ '* || $line == '```' ]]; then
      if [[ -n $command ]]; then
        check "$document" "$command" "${wanted%$'\n'}"
        now+=${shown:+$shown$'\n'}
      fi
      command=${line#'$ '} wanted=''
      now+=$line$'\n'
    elif ((inside)); then
      wanted+=$line$'\n'
    else
      now+=$line$'\n'
    fi
    [[ $line == '```' ]] && inside=0 command=''
    [[ $line == '```console' ]] && inside=1
  done <"$document"
  [[ -n ${SHARDWRIGHT_UPDATE_GOLDENS-} ]] && printf %s "$now" >"$document"
done
((count)) || { echo "docs_test.sh: no commands found"; failed=1; }

# shellcheck disable=SC2016 # backquotes are fences
cpp_block() { sed -n '/^```cpp$/,/^```$/{//!p}' "$1"; }
for pair in README.md:examples/00_first_steps.cpp docs/add-an-operator.md:tests/ops/toy/hypot.cpp; do
    diff <(cpp_block "${pair%%:*}") "${pair##*:}" ||
    { echo "docs_test.sh: the program in ${pair%%:*} is not ${pair##*:}"; failed=1; }
done

# Links to files of the repository lead somewhere.
for document in README.md docs/*.md docs/decisions/*.md; do
  while IFS= read -r link; do
    [[ -e $(dirname "$document")/$link ]] || { echo "docs_test.sh: $document links to $link"; failed=1; }
  done < <(grep -oE '\]\([^)#: ]+\)' "$document" | tr -d '])(')
done
exit $failed
