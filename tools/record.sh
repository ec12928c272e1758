#!/usr/bin/env bash
# Runs commands and writes what they print to a page under docs/results, with machine, date and commit:
#
#   tools/record.sh docs/results/kills.md "Kills" 'COMMAND' ['COMMAND'...]
set -euo pipefail
page=$1 title=$2
shift 2

machine() {
  local cpu memory
  cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
  memory=$(awk '/MemTotal/ {printf "%.0f GiB", $2 / 2^20}' /proc/meminfo)
  printf '%s, %s cores, %s, Linux %s' "$cpu" "$(nproc)" "$memory" "$(uname -r)"
}

commit=$(git rev-parse --short HEAD)
[[ -z $(git status --porcelain --untracked-files=no) ]] || commit+=" with changes"
{
  printf '# %s\n\nMachine: %s. Date: %s. Commit: %s.\nWritten by `tools/record.sh`, not by hand.\n' \
    "$title" "$(machine)" "$(date -u +%F)" "$commit"
  for command in "$@"; do
    printf '\n```\n$ %s\n' "$command"
    bash -c "$command" 2>&1
    printf '```\n'
  done
} >"$page.new"
mv "$page.new" "$page"
