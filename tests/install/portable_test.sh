#!/bin/bash
# portable_test.sh FOLDER [PYTHON]: the folder of ./dev check portable is small, and its programs run where there is glibc
# alone. PYTHON, with NumPy: imports the folder's package there, where nothing is but Python and what that needs.
set -euo pipefail
folder=$(cd "$1" && pwd)
python=${2:-}
readonly kMaxMebibytes=60
# Of the machine: glibc's own. Beside Python the C++ runtime, too, which NumPy and PyTorch need as well.
readonly kGlibc='lib(c|m|dl|rt|pthread|resolv)\.so'
readonly kRuntime='lib(stdc\+\+|gcc_s)\.so'

fail() {
  echo "portable_test: $*" >&2
  exit 1
}

mebibytes=$(du -sm "$folder" | cut -f1)
((mebibytes <= kMaxMebibytes)) || fail "$folder has $mebibytes MiB, more than $kMaxMebibytes"

# needs_only PATTERN FILE: that beside the folder's own.
needs_only() {
  local library path
  while read -r library _ path _; do
    [[ $library == linux-vdso* || ${path:-$library} == "$folder"/* || ${library##*/} == ld-linux-* ]] && continue
    [[ $library =~ ^$1 ]] || fail "${2##*/} needs $library, which is not in the folder"
  done < <(env -u LD_LIBRARY_PATH ldd "$2")
}
for program in "$folder"/bin/*; do needs_only "$kGlibc" "$program"; done
extension=$(compgen -G "$folder/python/ffdl/_ffdl.*.so" || true)
[[ -z $python || -n $extension ]] || fail "there is no package for Python in the folder"
[[ -z $extension ]] || needs_only "($kGlibc|$kRuntime)" "$extension"

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
    ffdl.DeviceLearner.attach(server)
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
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{lib64,dev,proc,tmp}
cp -a "$folder" "$root/ffdl"
# inside COMMAND...: with /proc, which the loader asks where a program lies, and the folders in $seen, where they lie here.
seen=()
inside() {
  unshare --mount bash -c 'root=$0
    for folder in /proc "${@:2:$1}"; do mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" || exit; done
    exec chroot "$root" "${@:2+$1}"' "$root" "${#seen[@]}" "${seen[@]}" "$@"
}
# copy_libraries PATTERN FILE...: those which these need, to where the loader finds them now.
copy_libraries() {
  ldd "${@:2}" 2>/dev/null | sed -nE "s/.*[ \t](\/[^ ]*\/(ld-linux[^ ]*|$1[^ ]*)) .*/\1/p" | sort -u |
    while read -r library; do
      install -D "$(realpath "$library")" "$root$library"
    done
}
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
  path_of() { "$python" -c "import sysconfig; print(sysconfig.get_path('$1'))"; }
  prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
  packages=$(path_of platlib)
  mapfile -t compiled < <(find "$(path_of stdlib)/lib-dynload" "$packages" -name '*.so')
  copy_libraries lib "$prefix/bin/python3" "${compiled[@]}"
  copy_libraries "$kRuntime" "$extension"
  seen=("$prefix" "$packages")
  PYTHONPATH="/ffdl/python:$packages" inside "$prefix/bin/python3" -c "$use_package" /ffdl ||
    fail "the package does not work in a bare root"
fi
echo "$folder: $mebibytes MiB; its programs need nothing but glibc${python:+, its package nothing but Python and NumPy}"
