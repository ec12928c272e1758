#!/bin/sh
# Installs what the peers need, once, into the virtual environment build/bench/peers of this checkout: pinned versions,
# and ffdl's own Python package from these sources.
set -eu
cd "$(dirname "$0")/../.."
venv=build/bench/peers
stamp=$venv/installed
wanted=$(cat benchmarks/peers/requirements.txt)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
  printf '%s' "$wanted" > "$stamp"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check .
