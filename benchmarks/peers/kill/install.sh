#!/bin/sh
# Installs torchft beside what ../install.sh installs.
set -eu
cd "$(dirname "$0")/../../.."
benchmarks/peers/install.sh
. benchmarks/peers/venv.sh
install_pinned benchmarks/peers/kill/requirements.txt
