#!/bin/bash
# newcomer.sh: the commands of README.md, in a new clone and a new virtual environment. Packages of Debian are those of
# this machine. The last line has the seconds of each part.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly kRoot=$PWD
folder=$(mktemp -d)
export HOME=$folder/home TMPDIR=$folder/tmp
mkdir "$HOME" "$TMPDIR"
job=
end() {
  [[ -z $job ]] || kill "$job" 2>/dev/null || true
  wait
  rm -rf "$folder"
}
trap end EXIT
fail() { echo "newcomer: $*" >&2 && exit 1; }

# block PAGE WORD: the one block of commands on the page with that word. A comment may end a line.
block() {
  python3 - "$@" <<'END'
import re, sys
page, word = sys.argv[1:]
(found,) = [text for text in re.findall(r"```sh\n(.*?)```", open(page).read(), re.DOTALL) if word in text]
print(found, end="")
END
}
# comes_true COMMAND...: within two minutes.
comes_true() {
  local i
  for ((i = 0; i < 240; ++i)); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.5
  done
  fail "never true: $*"
}
# trains JOB N: a world of N workers is active.
trains() {
  ffdl status "$1" --json </dev/null |
    python3 -c 'import json, sys; job = json.load(sys.stdin); sys.exit((job["phase"], job["world_size"]) != ("active", int(sys.argv[1])))' "$2"
}

git clone --quiet "$kRoot" "$folder/ffdl"
cd "$folder/ffdl"
SECONDS=0
install=$(block README.md 'pip install .')
eval "${install#*zlib1g-dev}"  # Debian's packages need root, and are there
eval "$(grep -o '`pip install torch scikit-learn`' README.md | tr -d '`')"
installed=$SECONDS

SECONDS=0
eval "$(block README.md 'ffdl run --workers 1:2 --job digits')" >"$folder/log" 2>&1 &
job=$!
comes_true trains digits 2
first=$SECONDS
while read -r line; do
  eval "$line" </dev/null || fail "README.md: $line"
  case $line in
    *' 1 '*) comes_true trains digits 1 ;;
    *' 2 '*) comes_true trains digits 2 ;;
  esac
done < <(block README.md 'ffdl scale digits')
kill "$job"
wait "$job" || true
job=

echo "newcomer: installed in $installed s; two workers trained after $first s; all commands of README.md ran in $SECONDS s"
