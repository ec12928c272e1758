#!/bin/sh
# Installs the requirements of the peers, once, into the virtual environment build/bench/peers of
# this checkout: pinned versions, and ffdl's own Python package from these sources.
set -eu
cd "$(dirname "$0")/../.."
. benchmarks/peers/venv.sh
install_pinned benchmarks/peers/requirements.txt
pip_install .
