#!/bin/bash
# portable_test.sh FOLDER [PYTHON]: the folder of ./dev check portable is small, and its programs run where there is glibc
# alone. PYTHON, with NumPy: imports the folder's package there, where nothing is but Python and what that needs.
set -euo pipefail
folder=$(cd "$1" && pwd)
python=${2:-}
readonly kMaxMebibytes=60
source "$(dirname "${BASH_SOURCE[0]}")/bare_root.sh"

mebibytes=$(du -sm "$folder" | cut -f1)
((mebibytes <= kMaxMebibytes)) || fail "$folder has $mebibytes MiB, more than $kMaxMebibytes"

for program in "$folder"/bin/*; do needs_only "$folder" "$kGlibc" "$program"; done
extension=$(compgen -G "$folder/python/ffdl/_ffdl.*.so" || true)
[[ -z $python || -n $extension ]] || fail "there is no package for Python in the folder"
[[ -z $extension ]] || needs_only "$folder" "($kGlibc|$kRuntime)" "$extension"

readonly use_package='
import sys
import numpy, ffdl
assert ffdl.__file__.startswith(sys.argv[1] + "/python/"), ffdl.__file__
server = ffdl.ParameterServer.create(parameters=3, rule=ffdl.UpdateRuleOptions(learning_rate=1.0))
server.start()
learner = ffdl.Learner.attach(server)
learner.push(numpy.ones(3, numpy.float32), (0, 0, 1))
learner.flush()
assert learner.live_weights().tolist() == [-1, -1, -1]
try:
    ffdl.Learner.attach(server, device=-1)
except ffdl.Unimplemented as error:
    assert "no CUDA" not in str(error), error
'
if [[ -n $python ]]; then
  env -u LD_LIBRARY_PATH PYTHONPATH="$folder/python" "$python" -B -c "$use_package" "$folder" || fail "the package does not work"
fi

if ((EUID != 0)); then
  echo "skipped: only root can try the programs in a root folder of their own"
  exit 0
fi
cp -a "$folder" "$root/ffdl"
copy_libraries "$kGlibc" "$folder"/bin/*
inside /ffdl/bin/ffdl --version >/dev/null || fail "ffdl does not run in a bare root"
[[ -z $extension ]] || inside /ffdl/python/ffdl/bin/ffdl --version >/dev/null || fail "the package's ffdl does not run in a bare root"
inside /ffdl/bin/nlc --help >/dev/null || fail "nlc does not run in a bare root"
inside /ffdl/bin/gpu_test --gtest_list_tests >/dev/null || fail "gpu_test does not run in a bare root"
inside /ffdl/bin/nlc_gpu_test --gtest_list_tests >/dev/null || fail "nlc_gpu_test does not run in a bare root"
# No driver in there, whatever the machine has.
status=0
said=$(inside /ffdl/bin/bench_cuda 2>&1) || status=$?
((status == 4)) || fail "bench_cuda ends with $status where there is no GPU, not with 4: $said"
if [[ -n $python ]]; then
  copy_python "$python"
  copy_libraries "$kRuntime" "$extension"
  PYTHONPATH="/ffdl/python:$packages" inside "$prefix/bin/python3" -c "$use_package" /ffdl ||
    fail "the package does not work in a bare root"
fi
echo "$folder: $mebibytes MiB; its programs need nothing but glibc${python:+, its package nothing but Python and NumPy}"
