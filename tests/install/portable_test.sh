#!/bin/bash
# portable_test.sh FOLDER: the folder of ./dev check portable is small, and its programs run where there is glibc alone.
set -euo pipefail
folder=$(cd "$1" && pwd)
readonly kMaxMebibytes=60

fail() {
  echo "portable_test: $*" >&2
  exit 1
}

mebibytes=$(du -sm "$folder" | cut -f1)
((mebibytes <= kMaxMebibytes)) || fail "$folder has $mebibytes MiB, more than $kMaxMebibytes"

for program in "$folder"/bin/*; do
  while read -r library _ path _; do
    [[ $library == linux-vdso* || ${path:-$library} == "$folder"/* || ${library##*/} == ld-linux-* ]] && continue
    [[ $library =~ ^lib(c|m|dl|rt|pthread|resolv)\.so ]] || fail "${program##*/} needs $library, which is not in the folder"
  done < <(env -u LD_LIBRARY_PATH ldd "$program")
done

if ((EUID != 0)); then
  echo "skipped: only root can try the programs in a root folder of their own"
  exit 0
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{lib64,dev,proc,tmp}
cp -a "$folder" "$root/ffdl"
# inside COMMAND...: with /proc, which the loader asks where a program lies.
inside() { unshare --mount bash -c 'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"; }
# Those of glibc, which the loader looks for where it finds them now.
ldd "$folder"/bin/* | sed -nE 's/.*[ \t](\/[^ ]*\/(ld-linux[^ ]*|lib(c|m|dl|rt|pthread|resolv)\.so[^ ]*)) .*/\1/p' | sort -u |
  while read -r library; do
    install -D "$(realpath "$library")" "$root$library"
  done
inside /ffdl/bin/ffdl --version >/dev/null || fail "ffdl does not run in a bare root"
inside /ffdl/bin/nlc --help >/dev/null || fail "nlc does not run in a bare root"
inside /ffdl/bin/gpu_test --gtest_list_tests >/dev/null || fail "gpu_test does not run in a bare root"
inside /ffdl/bin/nlc_gpu_test --gtest_list_tests >/dev/null || fail "nlc_gpu_test does not run in a bare root"
# No driver in there, whatever the machine has.
status=0
said=$(inside /ffdl/bin/bench_cuda 2>&1) || status=$?
((status == 4)) || fail "bench_cuda ends with $status where there is no GPU, not with 4: $said"
echo "$folder: $mebibytes MiB; its programs need nothing but glibc"
