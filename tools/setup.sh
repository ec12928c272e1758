# Sourced by ./dev: finds the packages that this machine lacks, and installs them.

readonly kMissing=3  # exit code: a package is missing that ./dev cannot install

say() { printf '%s\n' "$*" >&2; }
die() {
  say "dev: $2"
  exit "$1"
}

# Runs a command and shows its output only if it fails; on a terminal it names the command.
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

# Succeeds if that Python can make virtual environments and build extensions.
is_usable() {
  "$1" - 2>/dev/null <<'PY'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(sys.version_info < (3, 10) or not os.path.exists(header))
PY
}

# Prints a Python that can. $PYTHON goes first.
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

# Prints a Python of that version, such as 3.12, that can do the same. It is found by its name, or in pyenv, whose shims
# only name the locations of others.
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
    die $kMissing "apt-get was not found; install the contents of these Debian packages: ${missing[*]}"
  fi
  local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends)
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die $kMissing "this user is not root, and sudo was not found; run as root: apt-get install ${missing[*]}"
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

# PyTorch is large, and most of the tests do without it: installed only on request.
install_pytorch() {
  .venv/bin/python -c 'import expecttest, torch' 2>/dev/null && return
  logged pytorch .venv/bin/python -m pip install --disable-pip-version-check \
    --requirement tools/python-packages-torch.txt
}

# The trainers of others. Where they cannot be installed, their tests are skipped.
install_integrations() {
  .venv/bin/python -c 'import accelerate, lightning, ray, transformers' 2>/dev/null && return
  mkdir -p build/log
  .venv/bin/python -m pip install --disable-pip-version-check --constraint tools/python-packages.txt \
    --constraint tools/python-packages-torch.txt --requirement tools/python-packages-integrations.txt \
    >build/log/integrations.log 2>&1 </dev/null ||
    say "skipped: the tests of the trainers of others, as build/log/integrations.log says"
}

# NVIDIA's packages are larger still, and only a test with CUDA's compiler uses them.
install_cuda_packages() {
  .venv/bin/python -c 'import nvidia.cudnn, nvidia.nccl' 2>/dev/null && return
  logged cuda-packages .venv/bin/python -m pip install --disable-pip-version-check --no-deps \
    --requirement tools/python-packages-cuda.txt
}

setup() {
  install_debian_packages tools/debian-packages.txt
  install_python_packages
  [[ ${FFDL_TORCH:-OFF} != ON ]] || { install_pytorch && install_integrations; }
  [[ ${FFDL_CUDA_PACKAGES:-OFF} != ON ]] || ! command -v nvcc >/dev/null || install_cuda_packages
}
