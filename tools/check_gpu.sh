#!/bin/bash
# check-gpu [PAGES [PART...]]: runs the checks that need a GPU.
# The results are written to PAGES/gpu-CHIP.md line by line, so an early end keeps the earlier results. In the folder of a
# bare machine there are also gpu-CHIP.log, the output of the programs, and gpu-CHIP.json, the figures. A check that fails
# is on the page, and does not end the others. Nothing is fetched, and no network is used.
#   PAGES                 this folder if it is not given
#   PART                  tests, figures, gpt2, queries, pytorch or sanitizer; default: all. The files are gpu-CHIP-PART.*
#   FFDL_CHECK_SECONDS    the time limit; the check that runs then is ended
#   FFDL_DATA_DIR         the folder with clinc150/data_full.json; without it queries are not measured
#   PYTHON                the Python; default: python3. If python/ beside this file has ffdl, the first of PYTHON, python3,
#                         python3 of the version of ffdl, and python is used that has this version and PyTorch. NumPy and
#                         pytest may be wheels in wheels/ beside this file
#   NCCL_ROOT, CUBLAS_ROOT, CUDNN_ROOT    the folders of these libraries; default: those of Python's packages
# Programs are found in bin/ beside this file, or on PATH. The sanitizer is NVIDIA's compute-sanitizer, on PATH or in
# /usr/local/cuda.
# Exit codes: 1 a check failed, 2 the command line was not understood, 4 no usable GPU was found.
set -euo pipefail

fail() {
  echo "check-gpu: $2" >&2
  exit "$1"
}

case ${1:-} in
  -h | --help)
    sed -n '2,/^set/s/^# //p' "$0"
    exit 0
    ;;
  -*) fail 2 "there is no option '$1'; see check-gpu --help" ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pages=$(cd "${1:-$here}" && pwd) || fail 2 "there is no folder '$1'"
parts=("${@:2}")
suffix=$(printf -- '-%s' "${parts[@]}")
((${#parts[@]})) || parts=(tests figures gpt2 queries pytorch sanitizer) suffix=
for part in "${parts[@]}"; do
  [[ $part =~ ^(tests|figures|gpt2|queries|pytorch|sanitizer)$ ]] || fail 2 "there is no part '$part'; check-gpu --help names them"
done
seconds=${FFDL_CHECK_SECONDS:-86400}
[[ $seconds =~ ^[0-9]+$ ]] || fail 2 "FFDL_CHECK_SECONDS is '$seconds'; give a number of seconds"
top=$here  # root of a folder with the repository's layout
if [[ -d $here/bin ]]; then PATH=$here/bin:$PATH; else top=${here%/*}; fi
for program in bench_cuda gpu_test nlc nlc_alone nlc_gpu_test; do
  command -v "$program" >/dev/null || fail 2 "'$program' is neither in bin/ beside this file nor on PATH; './dev check gpu' builds it"
done

python=
for candidate in ${PYTHON:+"$PYTHON"} python3 python; do
  [[ -n $python ]] || ! command -v "$candidate" >/dev/null || python=$candidate
done
[[ -n $python ]] || fail 2 "no Python was found; name one in PYTHON"

# lacks PYTHON: prints its first missing requirement for this folder's package; prints nothing if
# there is none.
lacks() {
  "$1" - "$wanted" <<'PY' 2>/dev/null || echo "there is no Python '$1'"
import importlib.util, platform, sys
if sys.version_info[:2] != tuple(map(int, sys.argv[1].split("."))):
    print(f"'{sys.executable}' is Python {platform.python_version()}, and this folder's package is for {sys.argv[1]}")
elif not importlib.util.find_spec("torch"):
    print(f"'{sys.executable}', Python {platform.python_version()}, has no PyTorch")
PY
}

# Finds the Python of this machine that can use the package of this folder, and the libraries of its PyTorch.
lacking=
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
    lacking=${lacking:-$lack}  # of the first, which is the intended one
  done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# unpack MODULE PATTERN: unpacks the wheels in wheels/ whose names match, if Python lacks MODULE.
unpack() {
  local wheel
  [[ -d $here/wheels ]] && ! "$python" -c "import $1" 2>/dev/null || return 0
  for wheel in "$here"/wheels/*.whl; do
    [[ ! ${wheel##*/} =~ $2 ]] || "$python" -m zipfile -e "$wheel" "$work/wheels"
  done
}
unpack numpy '^numpy-'
unpack pytest '^(pytest|pluggy|iniconfig|packaging|pygments)-'
[[ ! -d $work/wheels ]] || export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$work/wheels

# use_package NAME_ROOT PACKAGES...: sets the folder of the first of NVIDIA's packages that Python
# has.
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

found=$work/found
failed=()

readonly kCut=124  # exit code of timeout(1) after its limit

# left LIMIT: prints the seconds that a program may run, at most LIMIT. Some are kept for the page.
left() {
  local rest=$((seconds - SECONDS - 10))
  ((rest < $1)) || rest=$1
  echo $((rest > 1 ? rest : 1))
}
is_over() { ((SECONDS + 12 >= seconds)); }

# limited LIMIT COMMAND...: runs it; it and all processes that it started end when its time is over.
limited() { timeout --kill-after=5 "$(left "$1")" "${@:2}"; }

# said LIMIT COMMAND...: runs it with its output in a file, and on the terminal when it has ended; returns its exit
# code. Uses no pipe, which a process that is left over would hold open.
said() {
  local status=0
  limited "$@" >"$found.now" 2>&1 || status=$?
  tail -c 1000000 "$found.now" >&2
  return "$status"
}

# driver_facts: prints its version, and the settings that decide how processes share a GPU.
driver_facts() {
  nvidia-smi --query-gpu=driver_version,compute_mode,mig.mode.current,pcie.link.gen.current,pcie.link.width.current \
    --format=csv,noheader 2>/dev/null | head -1 |
    sed -E 's/^([^,]*), ([^,]*), ([^,]*), ([^,]*), (.*)/\1, compute mode \2, MIG \3, PCIe \4 x\5/' ||
    sed -nE '1s/.*Module +([0-9.]+) .*/\1/p' /proc/driver/nvidia/version 2>/dev/null || true
}

# tests_of PROGRAM: prints the names of its tests.
tests_of() { "$1" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^ / && $1 !~ /^DISABLED_/ { print suite $1 }'; }

# one_test PROGRAM NAME: writes a line of the page, and the output of a failure. Each test is a process of its own,
# since an error leaves a GPU's context in a state that would fail the others, too.
one_test() {
  local status=0 begin=$SECONDS
  said "$((seconds < 3600 ? 60 : 150))" "$1" --gtest_filter="$2" || status=$?
  if ((status == 0)); then
    if grep -q ': Skipped$' "$found.now"; then
      awk -v name="$2" '/: Skipped$/ { getline; print "- `" name "`: skipped: " $0; exit }' "$found.now"
    else
      printf -- '- `%s`: passed, %d s\n' "$2" $((SECONDS - begin))
    fi
    return
  fi
  failed+=("$2")
  if ((status == kCut || status == 137)); then
    printf -- '- `%s`: **did not end in %d s**\n' "$2" $((SECONDS - begin))
  else
    printf -- '- `%s`: **failed, exit code %d**\n' "$2" "$status"
  fi
  printf '\n```\n%s\n```\n\n' "$( (grep -A12 'Failure$' "$found.now" || tail -n 15 "$found.now") | head -40 | cut -c-300)"
}

# NCCL's tests are last: one that hangs takes no other test's time.
tests() {
  local program name
  printf '\n## Tests\n\n'
  while read -r program name <&3; do
    if is_over; then
      printf -- '- `%s` and the tests after it: not run, the time is over\n' "$name"
      failed+=("$name")
      return
    fi
    one_test "$program" "$name"
  done 3< <(
    for program in gpu_test nlc_gpu_test; do tests_of "$program" | sed "s/^/$program /"; done |
      awk '$2 ~ /^Nccl/ { last = last $0 "\n"; next } { print } END { printf "%s", last }'
  )
}

# sanitized TOOL PROGRAM [FILTER]: writes a line of the page. Tests expect some errors from CUDA, so only memory errors
# are searched for; no kernel of ours has memory that its threads share. NCCL's own kernels are not checked, nor several
# processes of which one is killed.
sanitized() {
  local tool=$1 name="$1 of $2" status=0
  if is_over; then
    printf -- '- %s: not run, the time is over\n' "$name"
    failed+=("$name")
    return
  fi
  said 240 "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no "$(command -v "$2")" --gtest_filter="$3" || status=$?
  case $status in
    0) printf -- '- %s: clean\n' "$name" ;;
    9) printf -- '- %s: **%s**\n' "$name" "$(sed -nE 's/^=+ (.*SUMMARY: .*)/\1/p' "$found.now" | tail -1)" ;;
    "$kCut" | 137) printf -- '- %s: **did not end**; until then: %s errors\n' "$name" "$(grep -cE '^=+ (Invalid|Error|Warning|.*hazard)' "$found.now" || true)" ;;
    *) printf -- '- %s: **exit code %d**: %s\n' "$name" "$status" "$(tail -1 "$found.now")" ;;
  esac
  ((status == 0)) || failed+=("$name")
}

sanitizer() {
  local sanitizer
  printf '\n## Sanitizer\n\n'
  if ! sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | tail -n 1) || [[ -z $sanitizer ]]; then
    printf 'Not run: there is no compute-sanitizer on PATH.\n'
    return
  fi
  printf 'compute-sanitizer %s.\n\n' "$("$sanitizer" --version | sed -nE 's/^Version ([0-9.]+).*/\1/p')"
  sanitized initcheck gpu_test '*Kernels.*:UpdateRules.*'
  sanitized memcheck nlc_gpu_test '*Gradients*:*Steps*'
  sanitized memcheck gpu_test '-NcclOnGpu.*:*Processes*'
}

# The figures that were measured before a program was ended are in a file beside its own.
figures() {
  local status=0 json=$found.json
  rm -f "$json" "$json.rows"
  limited 86400 bench_cuda --json "$json" --lock "$work/lock" --repeats "$((seconds < 86400 ? 0 : 2))" >&2 || status=$?
  printf '\n## Kernels, traffic, sums and worlds\n\n'
  case $status in
    0 | 3) ;;  # a missed target is a figure, too
    *)
      failed+=(bench_cuda)
      [[ ! -f $json.rows ]] || mv "$json.rows" "$json"
      printf '**`bench_cuda` ended with %d**%s.\n\n' "$status" "$([[ -f $json ]] && printf '; this is what it had measured' || true)"
      ;;
  esac
  [[ -f $json ]] || return 0
  "$python" "$top/benchmarks/publish.py" "$json" "$work/figures"
  tail -n +3 "$work/figures"  # without its heading
}

# Learners of the queries' example on one GPU.
queries() {
  local data=${FFDL_DATA_DIR:-}/clinc150/data_full.json status=0
  printf '\n## Queries: learners on one GPU\n\n'
  if [[ ! -f $data ]]; then
    printf 'Not measured: there is no clinc150/data_full.json in the folder FFDL_DATA_DIR.\n'
    return
  fi
  limited 86400 "$python" "$top/examples/nlc/gpu_table.py" "$(command -v nlc)" "$(command -v nlc_alone)" --data "$data" \
    --seconds "$(left 86400)" || status=$?
  case $status in
    0) ;;
    4) printf '\nNot measured: the GPU, cuBLAS or cuDNN cannot be used; the log has the reason.\n' ;;
    *)
      printf '\n**gpu_table.py ended with %d.**\n' "$status"
      failed+=(gpu_table.py)
      ;;
  esac
}

# can_use_package WHAT: Python has PyTorch and an ffdl that can be imported; else a line of the page names the missing
# one.
can_use_package() {
  if [[ -n $lacking ]]; then
    printf '\n%s: %s; name a Python %s that has PyTorch in PYTHON.\n' "$1" "$lacking" "$wanted"
  elif ! "$python" -c 'import torch, ffdl' 2>"$work/why"; then
    printf '\n%s: %s.\n' "$1" "$(tail -n 1 "$work/why")"
  else
    return 0
  fi
  return 1
}

# The checks that need PyTorch with CUDA and an ffdl for Python that was built with it: its tests, and pauses of a large
# model.
pytorch() {
  local status=0
  printf '\n## PyTorch: tensors on a GPU\n'
  can_use_package 'Not run' || return 0
  if ! "$python" -c 'import pytest' 2>/dev/null; then
    printf '\nTests not run: Python has no pytest.\n'
    return
  fi
  said 86400 "$python" -m pytest -v -rfEs --color=no -p no:cacheprovider "$top/tests/python/test_torch_cuda.py" || status=$?
  if ((status == kCut || status == 137)); then
    printf '\n- `test_torch_cuda.py`: **did not end**: %d passed, %d failed; the last line is `%s`\n' \
      "$(grep -c ' PASSED' "$found.now" || true)" "$(grep -c ' FAILED' "$found.now" || true)" "$(tail -n 1 "$found.now")"
  else
    printf '\n- `test_torch_cuda.py`: %s\n' "$(tail -n 1 "$found.now")"
  fi
  sed -nE 's/^(FAILED|ERROR|SKIPPED) /  - &/p' "$found.now" | cut -c-300 | head -40
  ((status == 0 || status == 5)) || failed+=(test_torch_cuda.py)  # 5: all of it is skipped
}

gpt2() {
  local backend status most reason
  printf '\n## PyTorch: GPT-2 small whose workers join, leave and are killed\n'
  can_use_package 'Not measured' || return 0
  for backend in NCCL DEVICE_SHM; do
    status=0 most=$(($(left 86400) - 10))
    [[ $backend != NCCL ]] || most=$((most * 3 / 5))  # the other back end has its turn, too
    ((most < 400)) || most=400
    limited 86400 "$python" "$top/benchmarks/gpt2_stops.py" --backend "$backend" --timeout-s "$most" \
      --steps "$((seconds < 3600 ? 25 : 40))" \
      >"$work/gpt2" 2>"$work/why" || status=$?
    cat "$work/why" >&2
    # What the workers wrote may follow the reason.
    reason=$(grep -a '^gpt2_stops: ' "$work/why" | tail -n 1 || tail -n 1 "$work/why")
    printf '\n'
    case $status in
      0) cat "$work/gpt2" ;;
      4)
        printf 'Not measured: %s\n' "$reason"
        return
        ;;
      *)
        printf '**%s failed**: %s\n\n' "$backend" "$reason"
        cat "$work/gpt2"
        failed+=("gpt2_stops.py --backend $backend")
        ;;
    esac
  done
}

status=0
bench_cuda --facts >"$work/page" || status=$?
((status != 4)) || fail 4 "no usable GPU was found; the line above has the reason"
((status == 0)) || fail 1 "bench_cuda --facts failed"
NLC_PROGRAM=$(command -v nlc)
export NLC_PROGRAM NCCL_DEBUG=${NCCL_DEBUG:-WARN}  # the log has NCCL's reasons for refusals
export CUDNN_LOGLEVEL_DBG=${CUDNN_LOGLEVEL_DBG:-1} CUDNN_LOGDEST_DBG=${CUDNN_LOGDEST_DBG:-stderr}  # and those of cuDNN
chip=$(sed -n '1s/^# ffdl on //p' "$work/page" | tr -cs '[:alnum:]\n' - | tr '[:upper:]' '[:lower:]')
page=$pages/gpu-$chip$suffix.md
[[ ! -d $here/bin ]] || found=$pages/gpu-$chip$suffix  # otherwise the page alone is kept
rm -f "$found".{log,json,json.rows,now}
# Without an open client a driver releases the GPU, and takes seconds to start with it again: with each of the tests.
for file in /dev/nvidia[0-9]*; do
  { exec {open}<"$file"; } 2>/dev/null || true
done
exec 2> >(tee -a "$found.log" >&2)
log=$!
# ended: waits until the log's tee has written everything. A process that the driver does not let end may hold its pipe
# open.
ended() {
  rm -rf "$work" "$found.now"
  exec 2>&-
  for ((i = 0; i < 50; i++)); do
    kill -0 "$log" || return 0
    sleep 0.1
  done
}
trap ended EXIT
cp "$work/page" "$page"
{
  printf 'Driver %s. %s.\n' "$(driver_facts)" "$(nlc_alone --versions)"
  printf '%s processors; %s of shared memory may be used.\n' "$(nproc)" "$(df -h --output=avail /dev/shm | tail -n 1 | tr -d ' ')"
  commit=$(cat "$here/commit" 2>/dev/null || git -C "$here" describe --always --dirty 2>/dev/null || echo unknown)
  printf '`check-gpu %s`, %s, commit %s.\n' "${parts[*]}" "$(date -u +%F)" "$commit"
} >>"$page"
for part in "${parts[@]}"; do
  "$part" >>"$page" || failed+=("$part")
done
echo "figures: $page"
((${#failed[@]} == 0)) || fail 1 "failed: $(printf '%s; ' "${failed[@]}" | sed 's/; $//')"
