# Sourced by ./dev: finds out what is missing on this machine, and installs it.

readonly kMissing=3  # exit code: something is missing that ./dev cannot install

say() { printf '%s\n' "$*" >&2; }
die() {
  say "dev: $2"
  exit "$1"
}

# Runs a command and shows what it printed only if it fails; on a terminal says what it is doing.
logged() {
  local label=$1 log=build/log/$1.log
  shift
  mkdir -p build/log
  [[ ! -t 2 ]] || printf '%s ...' "${label//-/ }" >&2
  if ! "$@" >"$log" 2>&1 </dev/null; then
    say ""
    cat "$log" >&2
    die 1 "$label failed; the text above is also in $log"
  fi
  [[ ! -t 2 ]] || printf '\r\e[K' >&2
}

# Whether it can make virtual environments and build extensions.
is_usable() {
  "$1" - 2>/dev/null <<'PY'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(sys.version_info < (3, 10) or not os.path.exists(header))
PY
}

# One that can. $PYTHON goes first.
usable_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} /usr/bin/python3 python3; do
    if is_usable "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

# One of that version, such as 3.12, which can do the same: by its name, or of pyenv, whose shims only say
# where others are.
find_python() {
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if is_usable "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

is_there() {
  case $1 in
    command) command -v "$2" >/dev/null ;;
    header) compgen -G "/usr/include/$2" || compgen -G "/usr/include/*-linux-gnu/$2" ||
      compgen -G "/usr/local/include/$2" ;;
    file) compgen -G "$2" ;;
    python) venv_is_current || usable_python ;;
  esac >/dev/null
}

install_debian_packages() {
  local list=$1 package kind what
  local -a missing=() root=()
  while read -r package kind what; do
    [[ -z $package || $package == \#* ]] || is_there "$kind" "$what" || missing+=("$package")
  done <"$list"
  ((${#missing[@]})) || return 0

  if ! command -v apt-get >/dev/null; then
    die $kMissing "there is no apt-get here; install what these Debian packages hold: ${missing[*]}"
  fi
  local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends)
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die $kMissing "not root, and no sudo; as root: apt-get install ${missing[*]}"
    apt=(sudo "${apt[@]}")
  fi
  say "installing Debian packages: ${missing[*]}"
  logged apt-update "${apt[@]}" update
  logged apt-install "${apt[@]}" install "${missing[@]}"
}

python_stamp() { sha256sum <tools/python-packages.txt; }

venv_is_current() {
  [[ -f .venv/packages.stamp && $(<.venv/packages.stamp) == "$(python_stamp)" ]] &&
    .venv/bin/python -c ''
}

install_python_packages() {
  venv_is_current 2>/dev/null && return
  local python
  python=$(usable_python) || die $kMissing "no Python >= 3.10 with venv and headers was found; \
install python3, python3-venv and python3-dev, or set PYTHON to one"
  say "making the virtual environment .venv with $python"
  logged venv "$python" -m venv --clear .venv
  logged python-packages .venv/bin/python -m pip install --disable-pip-version-check \
    --requirement tools/python-packages.txt
  python_stamp >.venv/packages.stamp
}

# PyTorch is large, and most of the tests do without it: only where it is asked for.
install_pytorch() {
  .venv/bin/python -c 'import torch' 2>/dev/null && return
  logged pytorch .venv/bin/python -m pip install --disable-pip-version-check \
    --requirement tools/python-packages-torch.txt
}

# NVIDIA's packages are larger still, and only a test with CUDA's compiler looks at them.
install_cuda_packages() {
  .venv/bin/python -c 'import nvidia.cudnn, nvidia.nccl' 2>/dev/null && return
  logged cuda-packages .venv/bin/python -m pip install --disable-pip-version-check --no-deps \
    --requirement tools/python-packages-cuda.txt
}

setup() {
  install_debian_packages tools/debian-packages.txt
  install_python_packages
  [[ ${FFDL_TORCH:-OFF} != ON ]] || install_pytorch
  [[ ${FFDL_CUDA_PACKAGES:-OFF} != ON ]] || ! command -v nvcc >/dev/null || install_cuda_packages
}
