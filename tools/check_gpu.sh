#!/bin/bash
# check-gpu [PAGES [PART...]]: runs what can only be checked with a GPU, and writes what it found to PAGES/gpu-CHIP.md;
# PAGES is this folder if it is not given. With parts (tests, sanitizer, figures, queries, pytorch) it does these alone, and writes
# gpu-CHIP-PART.md. The programs are those of bin/ beside this file, or of PATH. NCCL, cuBLAS and cuDNN are those of Python's
# packages, unless NCCL_ROOT, CUBLAS_ROOT and CUDNN_ROOT name others. Python is python3; where python/ beside this file has ffdl,
# it is the first of PYTHON, python3, that version's name and python that has its version and PyTorch. The sanitizer is NVIDIA's
# compute-sanitizer, where it is on PATH. Queries are measured where the folder FFDL_DATA_DIR has clinc150/data_full.json. Nothing
# is fetched, and no network is used. What fails ends nothing: the page has it, and what comes behind.
# Exit codes: 1 something failed, 2 it was called wrongly, 4 there is no GPU here that can be used.
set -euo pipefail

fail() {
  echo "check-gpu: $2" >&2
  exit "$1"
}

case ${1:-} in
  -h | --help)
    sed -n '2,9s/^# //p' "$0"
    exit 0
    ;;
  -*) fail 2 "there is no option '$1'; check-gpu --help says more" ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pages=$(cd "${1:-$here}" && pwd) || fail 2 "there is no folder '$1'"
parts=("${@:2}")
suffix=$(printf -- '-%s' "${parts[@]}")
((${#parts[@]})) || parts=(tests sanitizer figures queries pytorch) suffix=
for part in "${parts[@]}"; do
  [[ $part =~ ^(tests|sanitizer|figures|queries|pytorch)$ ]] || fail 2 "there is no part '$part'; check-gpu --help names them"
done
top=$here  # of a folder that lies as the repository does
if [[ -d $here/bin ]]; then PATH=$here/bin:$PATH; else top=${here%/*}; fi
for program in python3 bench_cuda gpu_test nlc nlc_alone nlc_gpu_test; do
  command -v "$program" >/dev/null || fail 2 "'$program' is neither in bin/ beside this file nor on PATH; './dev check gpu' builds ours"
done

# lacks PYTHON: what it has not that the package of this folder needs; empty where that is nothing.
lacks() {
  "$1" - "$wanted" <<'PY' 2>/dev/null || echo "there is no Python '$1'"
import importlib.util, platform, sys
if sys.version_info[:2] != tuple(map(int, sys.argv[1].split("."))):
    print(f"'{sys.executable}' is Python {platform.python_version()}, and this folder's package is for {sys.argv[1]}")
elif not importlib.util.find_spec("torch"):
    print(f"'{sys.executable}', Python {platform.python_version()}, has no PyTorch")
PY
}

# Of a machine's Pythons the one that can use the package of this folder, and the libraries that its PyTorch brings.
python=python3 lacking=
package=$(compgen -G "$here/python/ffdl/_ffdl.cpython-3*" || true)
if [[ -n $package ]]; then
  export PYTHONPATH=$here/python${PYTHONPATH:+:$PYTHONPATH}
  wanted=$(sed -nE 's/.*[.]cpython-3([0-9]+).*/3.\1/p' <<<"$package")
  for candidate in ${PYTHON:+"$PYTHON"} python3 "python$wanted" python; do
    lack=$(lacks "$candidate")
    if [[ -z $lack ]]; then
      python=$candidate lacking=
      break
    fi
    lacking=${lacking:-$lack}  # of the first, which is the one that was meant
  done
fi

# use_package NAME_ROOT PACKAGES...: the folder of the first of NVIDIA's packages that Python has.
use_package() {
  local root=$1 folder
  shift
  [[ -z ${!root:-} ]] || return 0
  folder=$("$python" - "$@" <<'PY' 2>/dev/null
import importlib.util, sys
found = filter(None, (importlib.util.find_spec("nvidia." + name) for name in sys.argv[1:]))
print(next(iter(next(found).submodule_search_locations)))
PY
  ) || return 0
  export "$root=$folder"
}
use_package NCCL_ROOT nccl
use_package CUBLAS_ROOT cu13 cublas
use_package CUDNN_ROOT cudnn

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()

# said COMMAND...: what it writes goes to the terminal and to $work/said; its exit code.
said() { "$@" 2>&1 | tee "$work/said" >&2; }

# driver_version: of the kernel's module.
driver_version() {
  nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1 ||
    sed -nE '1s/.*Module +([0-9.]+) .*/\1/p' /proc/driver/nvidia/version 2>/dev/null || true
}

# outcome NAME STATUS: a line of the page about tests: how many did what, and why some were skipped.
outcome() {
  local counts
  counts=$(sed -nE 's/^\[ +(PASSED|SKIPPED|FAILED) +\] ([0-9]+) tests?[.,].*/\2 \L\1/p' "$work/said" | paste -sd, | sed 's/,/, /g')
  printf -- '- `%s`: %s%s\n' "$1" "${counts:-it ended early}" "$( (($2)) && printf ' (**exit code %d**)' "$2")"
  awk '/: Skipped$/ { getline; print "  - skipped: " $0 }' "$work/said" | sort -u
  (($2 == 0)) || failed+=("$1")
}

tests() {
  local status
  printf '\n## Tests\n\n'
  for program in gpu_test nlc_gpu_test; do
    status=0
    said "$program" || status=$?
    outcome "$program" "$status"
  done
}

# sanitized TOOL PROGRAM [FILTER]: a line of the page. Errors that CUDA tells are the tests' to expect; what is looked for is
# memory and races. NCCL's own kernels are not looked into.
sanitized() {
  local tool=$1 name="$1 of $2" status=0
  said timeout 180 compute-sanitizer --tool "$tool" --error-exitcode 9 --report-api-errors no "$2" --gtest_filter="$3" || status=$?
  case $status in
    0) printf -- '- %s: clean\n' "$name" ;;
    9) printf -- '- %s: **%s**\n' "$name" "$(sed -nE 's/^=+ (.*SUMMARY: .*)/\1/p' "$work/said" | tail -1)" ;;
    124) printf -- '- %s: **did not end in 180 s**\n' "$name" ;;
    *) printf -- '- %s: **exit code %d**: %s\n' "$name" "$status" "$(tail -1 "$work/said")" ;;
  esac
  ((status == 0)) || failed+=("$name")
}

sanitizer() {
  printf '\n## Sanitizer\n\n'
  if ! command -v compute-sanitizer >/dev/null; then
    printf 'Not run: there is no compute-sanitizer on PATH.\n'
    return
  fi
  printf 'compute-sanitizer %s.\n\n' "$(compute-sanitizer --version | sed -nE 's/^Version ([0-9.]+).*/\1/p')"
  sanitized memcheck gpu_test '-NcclOnGpu.*'
  sanitized memcheck nlc_gpu_test '*'
  sanitized racecheck gpu_test '*Kernels.*:UpdateRules.*'
}

figures() {
  local status=0
  bench_cuda --json "$work/cuda.json" >&2 || status=$?
  case $status in
    0 | 3) ;;  # a missed target is a figure, too
    *) failed+=(bench_cuda) ;;
  esac
  printf '\n## Kernels, traffic, sums and worlds\n\n'
  if [[ -f $work/cuda.json ]]; then
    python3 "$top/benchmarks/publish.py" "$work/cuda.json" "$work/figures"
    tail -n +3 "$work/figures"  # without its heading
  else
    printf 'Not measured: `bench_cuda` ended with %d.\n' "$status"
  fi
}

# Learners of the queries' example on one GPU.
queries() {
  local data=${FFDL_DATA_DIR:-}/clinc150/data_full.json status=0
  printf '\n## Queries: learners on one GPU\n\n'
  if [[ ! -f $data ]]; then
    printf 'Not measured: there is no clinc150/data_full.json in the folder FFDL_DATA_DIR.\n'
    return
  fi
  python3 "$top/examples/nlc/gpu_table.py" "$(command -v nlc)" "$(command -v nlc_alone)" --data "$data" >"$work/queries" || status=$?
  case $status in
    0) cat "$work/queries" ;;
    4) printf 'Not measured: cuBLAS or cuDNN was not found.\n' ;;
    *)
      cat "$work/queries"
      printf '\n**gpu_table.py failed.**\n'
      failed+=(gpu_table.py)
      ;;
  esac
}

# What needs PyTorch with CUDA and an ffdl for Python that was built with it: its tests, and stops of a large model.
pytorch() {
  local backend status=0
  printf '\n## PyTorch: GPT-2 small whose workers come, leave and are killed\n'
  if [[ -n $lacking ]]; then
    printf '\nNot run: %s; name a Python %s that has PyTorch in PYTHON.\n' "$lacking" "$wanted"
    return
  fi
  if ! "$python" -c 'import torch, ffdl' 2>"$work/why"; then
    printf '\nNot run: %s.\n' "$(tail -n 1 "$work/why")"
    return
  fi
  if ! "$python" -c 'import pytest' 2>/dev/null; then
    printf '\nTests not run: Python has no pytest.\n'
  else
    said "$python" -m pytest -q -rs -p no:cacheprovider "$top/tests/python/test_torch_cuda.py" || status=$?
    printf '\n- `test_torch_cuda.py`: %s\n' "$(tail -n 1 "$work/said")"
    ((status == 0 || status == 5)) || failed+=(test_torch_cuda.py)  # 5: all of it is skipped
  fi
  for backend in NCCL DEVICE_SHM; do
    status=0
    "$python" "$top/benchmarks/gpt2_stops.py" --backend "$backend" >"$work/gpt2" 2>"$work/why" || status=$?
    cat "$work/why" >&2
    printf '\n'
    case $status in
      0) cat "$work/gpt2" ;;
      4)
        printf 'Not measured: %s\n' "$(tail -n 1 "$work/why")"
        return
        ;;
      *)
        printf '**%s failed**: %s\n' "$backend" "$(tail -n 1 "$work/why")"
        failed+=("gpt2_stops.py --backend $backend")
        ;;
    esac
  done
}

status=0
bench_cuda --facts >"$work/page" || status=$?
((status != 4)) || fail 4 "there is no GPU here that can be used; the line above says why"
((status == 0)) || fail 1 "bench_cuda --facts failed"
NLC_PROGRAM=$(command -v nlc)
export NLC_PROGRAM
{
  printf 'Driver %s. %s.\n' "$(driver_version)" "$(nlc_alone --versions)"
  commit=$(cat "$here/commit" 2>/dev/null || git -C "$here" describe --always --dirty 2>/dev/null || echo unknown)
  printf '`check-gpu %s`, %s, commit %s.\n' "${parts[*]}" "$(date -u +%F)" "$commit"
} >>"$work/page"
for part in "${parts[@]}"; do "$part" >>"$work/page"; done
chip=$(sed -n '1s/^# ffdl on //p' "$work/page" | tr -cs '[:alnum:]\n' - | tr '[:upper:]' '[:lower:]')
cp "$work/page" "$pages/gpu-$chip$suffix.md"
echo "figures: $pages/gpu-$chip$suffix.md"
((${#failed[@]} == 0)) || fail 1 "failed: $(printf '%s; ' "${failed[@]}" | sed 's/; $//')"
