#!/bin/bash
# wheel_test.sh WHEEL VENV: the wheel is small, brings its libraries, and works where it is installed, in VENV, if nothing
# is there but glibc, the C++ runtime, zlib (as for all wheels of manylinux) and Python with NumPy.
set -euo pipefail
wheel=$1
venv=$(cd "$2" && pwd)
readonly kMaxMebibytes=30
source "$(dirname "${BASH_SOURCE[0]}")/bare_root.sh"
readonly kMachine="($kGlibc|$kRuntime|libz\.so)"

mebibytes=$((($(stat -c %s "$wheel") + (1 << 20) - 1) >> 20))
((mebibytes <= kMaxMebibytes)) || fail "$wheel has $mebibytes MiB, more than $kMaxMebibytes"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
program=$site/ffdl/bin/ffdl
for file in "$program" "$site"/ffdl/_ffdl.*.so; do needs_only "$site" "$kMachine" "$file"; done
built=$("$program" --version)
for part in gloo etcd archives; do
  [[ ${built%; without*} == *"$part"* ]] || fail "the wheel is built without $part: $built"
done

prefix=$("$venv/bin/python" -c 'import sys; print(sys.base_prefix)')
if ((EUID != 0)) || [[ $prefix == /usr ]]; then
  echo "$wheel: $mebibytes MiB; skipped: in a bare root, which needs root, and a Python outside /usr"
  exit 0
fi
copy_python "$venv/bin/python"
copy_libraries "$kMachine" "$program" "$site"/ffdl/_ffdl.*.so
inside "$program" --version >/dev/null || fail "ffdl does not run in a bare root"
PYTHONPATH=$site inside "$prefix/bin/python3" -B -c '
import numpy, ffdl
server = ffdl.ParameterServer.create(parameters=3, rule=ffdl.UpdateRuleOptions(learning_rate=1.0))
server.start()
learner = ffdl.Learner.attach(server)
learner.push(numpy.ones(3, numpy.float32), (0, 0, 1))
learner.flush()
assert learner.live_weights().tolist() == [-1, -1, -1]
' || fail "the package does not work in a bare root"
echo "$wheel: $mebibytes MiB; works with Python and NumPy alone"
