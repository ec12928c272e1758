# Sourced by tests of programs in a root folder of their own, $root, with nothing but what is copied there.
# Of the machine: glibc's own. Beside Python the C++ runtime, too, which NumPy and PyTorch need as well.
readonly kGlibc='lib(c|m|dl|rt|pthread|resolv)\.so'
readonly kRuntime='lib(stdc\+\+|gcc_s)\.so'

fail() {
  echo "$(basename "$0" .sh): $*" >&2
  exit 1
}
# needs_only FOLDER PATTERN FILE: beside libraries in the folder.
needs_only() {
  local library path
  while read -r library _ path _; do
    [[ $library == linux-vdso* || ${path:-$library} == "$1"/* || ${library##*/} == ld-linux-* ]] && continue
    [[ $library =~ ^$2 ]] || fail "${3##*/} needs $library, which is not in $1"
  done < <(env -u LD_LIBRARY_PATH ldd "$3")
}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{lib64,dev,proc,tmp}
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
# copy_python PYTHON: that interpreter's libraries; it and its packages are in $seen afterwards.
copy_python() {
  path_of() { "$python" -c "import sysconfig; print(sysconfig.get_path('$1'))"; }
  local python=$1 compiled
  prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
  packages=$(path_of platlib)
  mapfile -t compiled < <(find "$(path_of stdlib)/lib-dynload" "$packages" -name '*.so')
  copy_libraries lib "$prefix/bin/python3" "${compiled[@]}"
  seen=("$prefix" "$packages")
}
