#!/bin/bash
# check_gpu_test.sh CHECKOUT: what tools/check_gpu.sh makes of how its programs end, with programs that only pretend.
set -euo pipefail
checkout=$(cd "$1" && pwd)

fail() {
  echo "check_gpu_test: $*" >&2
  cat "$work"/pages/*.md "$work/log" >&2 || true
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{folder/bin,folder/benchmarks,sanitizer,pages}
cp "$checkout/tools/check_gpu.sh" "$work/folder/check-gpu"
cp "$checkout/benchmarks/publish.py" "$work/folder/benchmarks"
echo abc123 >"$work/folder/commit"

pretend() {
  { echo '#!/bin/bash'; cat; } >"$1"
  chmod +x "$1"
}
pretend "$work/folder/bin/bench_cuda" <<'FAKE'
if [[ $1 == --facts ]]; then
  printf '# ffdl on A Chip 100\n\nsm_90.\n'
  exit "${FACTS:-0}"
fi
[[ ${BENCH:-0} == 139 ]] && exit 139
json=$2
[[ ${BENCH:-0} != sleep ]] || json+=.rows
cat >"$json" <<'JSON'
{"machine": {"cpu": "c", "cores": 1, "kernel": "k", "memory_bytes": 1}, "commit": "abc123", "date": "d", "command": "bench_cuda",
 "void": false, "rows": [{"name": "cuda/x", "value": 1, "unit": "us", "limit": null, "limit_is": "", "ratio": null, "lo": null,
 "hi": null, "disturbed": false, "note": "a note"}]}
JSON
[[ ${BENCH:-0} != sleep ]] || exec sleep 60
[[ ${BENCH:-0} != left ]] || { sleep 120 & echo $! >"${0%/*}/left"; exit 0; }
exit "${BENCH:-0}"
FAKE
pretend "$work/folder/bin/gpu_test" <<'FAKE'
case $1 in
  --gtest_list_tests) printf 'Running main() from gtest_main.cc\nKernels.\n  Add\n  DISABLED_Member\nNcclOnGpu.\n  Two/0  # GetParam() = 7\n' ;;
  --gtest_filter=Kernels.Add)
    [[ ${GPU_TEST:-0} != sleep ]] || exec sleep 60
    ((${GPU_TEST:-0} == 0)) || printf 'a.cc:7: Failure\nExpected equality of these values:\n  3\n  4\n'
    exit "${GPU_TEST:-0}"
    ;;
  --gtest_filter=NcclOnGpu.Two/0) printf 'x.cc:3: Skipped\nno NCCL\n' ;;
  *) exit 99 ;;
esac
FAKE
pretend "$work/folder/bin/nlc_gpu_test" <<'FAKE'
[[ -x $NLC_PROGRAM ]] || exit 98
[[ $1 != --gtest_list_tests ]] || printf 'Nlc.\n  Learns\n'
FAKE
pretend "$work/folder/bin/nlc" </dev/null
pretend "$work/folder/bin/nlc_alone" <<<'echo "cuBLAS 13.1.0, cuDNN 9.14.0"'
pretend "$work/sanitizer/compute-sanitizer" <<'FAKE'
if [[ $1 == --version ]]; then printf 'NVIDIA\nVersion 2025.3.0.0 (build 1)\n'; exit; fi
echo "========= ERROR SUMMARY: ${FOUND:-0} errors"
((${FOUND:-0} == 0)) || exit 9
FAKE

# Python's part is pretended, too: a package for the Python that is here.
mkdir -p "$work/folder/python/"{ffdl,pytest}
touch "$work/folder/python/"{torch,numpy,{ffdl,pytest}/__init__}.py
package() { rm -f "$work/folder/python/ffdl/_ffdl."* && touch "$work/folder/python/ffdl/_ffdl.cpython-3$1-x86_64-linux-gnu.so"; }
own=$(python3 -c 'import sys; print(sys.version_info[1])')
package "$own"
pretend "$work/mine" <<'FAKE'
echo >>"${0%/*}/asked"
exec python3 "$@"
FAKE
pretend "$work/isolated" <<'FAKE'
exec python3 -S "$@"
FAKE
cat >"$work/folder/python/pytest/__main__.py" <<'FAKE'
import os, sys
print("skipped: no GPU for PyTorch\n2 skipped in 0.1 s")
sys.exit(int(os.environ.get("PYTEST", "0")))
FAKE
cat >"$work/folder/benchmarks/gpt2_stops.py" <<'FAKE'
import os, sys
print(f"| {sys.argv[2]} | 7 ms |")
print("gpt2_stops: this line says why\na worker's line\n", file=sys.stderr)
sys.exit(int(os.environ.get("GPT2", "0")))
FAKE

# check WANTED [NAME=VALUE...] [-- ARGUMENTS...]: it ends with that code; $page is what it wrote, if anything.
page=$work/pages/gpu-a-chip-100.md
check() {
  local wanted=$1 status=0 words=()
  shift
  while (($#)) && [[ $1 != -- ]]; do words+=("$1") && shift; done
  rm -f "$work"/pages/*
  env -u FFDL_DATA_DIR PATH="$work/sanitizer:$PATH" "${words[@]}" "$work/folder/check-gpu" "$work/pages" "${@:2}" >"$work/log" 2>&1 || status=$?
  ((status == wanted)) || fail "'${words[*]} $*' ended with $status, not $wanted"
}
has() { grep -qF -- "$1" "$page" || fail "the page lacks '$1'"; }

check 0
has 'cuBLAS 13.1.0, cuDNN 9.14.0'
has 'commit abc123'
has '`Kernels.Add`: passed, '
has '`NcclOnGpu.Two/0`: skipped: no NCCL'
has '`Nlc.Learns`: passed, '
has 'compute-sanitizer 2025.3.0.0'
has 'memcheck of gpu_test: clean'
has 'initcheck of gpu_test: clean'
[[ -s ${page%.md}.json && -s ${page%.md}.log ]] || fail "figures or what the programs wrote are missing"
has '`cuda/x`: a note'
has 'Not measured: there is no clinc150'
has '`test_torch_cuda.py`: 2 skipped'
has '| NCCL | 7 ms |'
has '| DEVICE_SHM | 7 ms |'
check 0 BENCH=3  # a target is missed
check 0 PYTEST=5  # pytest's code where all is skipped at once
check 1 PYTEST=1
has '| NCCL | 7 ms |'
check 0 GPT2=4
has 'Not measured: gpt2_stops: this line says why'
check 1 GPT2=1
has '**DEVICE_SHM failed**: gpt2_stops: this line says why'
check 1 FOUND=2
has 'memcheck of nlc_gpu_test: **ERROR SUMMARY: 2 errors**'
has '`cuda/x`: a note'
check 1 GPU_TEST=134
has '`Kernels.Add`: **failed, exit code 134**'
has 'Expected equality of these values:'
has '`Nlc.Learns`: passed, '
has 'memcheck of gpu_test: clean'
check 1 BENCH=139
has '**`bench_cuda` ended with 139**.'
has '## Queries'
# What is begun ends in time, and what was found until then is kept.
check 1 BENCH=sleep FFDL_CHECK_SECONDS=20
has '**`bench_cuda` ended with 124**; this is what it had measured'
has '`cuda/x`: a note'
has 'memcheck of gpu_test: not run, the time is over'
check 1 GPU_TEST=sleep FFDL_CHECK_SECONDS=20 -- tests
page=${page%.md}-tests.md
has '`Kernels.Add`: **did not end in '
has '`Nlc.Learns` and the tests after it: not run, the time is over'
page=${page%-tests.md}.md
SECONDS=0
check 0 BENCH=left -- figures  # a process that it leaves behind has the log open
((SECONDS < 60)) || fail "it waits for what a program has left behind"
kill "$(<"$work/folder/bin/left")"
check 2 FFDL_CHECK_SECONDS=long
check 4 FACTS=4
[[ ! -e $page ]] || fail "it wrote a page without a GPU"
check 0 -- figures
[[ -e $work/pages/gpu-a-chip-100-figures.md && ! -e $page ]] || fail "a part has no page of its own"
check 2 -- everything
check 2 -- --help
check 0 PYTHON="$work/mine"
[[ -s $work/asked ]] || fail "it does not take the Python that it was given"
has '| NCCL | 7 ms |'
package 99
check 0
has "and this folder's package is for 3.99"
package "$own"
mv "$work/folder/python/"{torch,no_torch}.py
check 0
has ', has no PyTorch; name a Python'
check 0 PYTHON="$work/none"
has "Not run: there is no Python '$work/none'"
mv "$work/folder/python/"{no_torch,torch}.py
mv "$work/folder/python/pytest" "$work/pytest"
check 0 PYTHONNOUSERSITE=1 PYTHON="$work/isolated"
has 'Tests not run: Python has no pytest'
mkdir "$work/folder/wheels"
(cd "$work" && python3 -m zipfile -c folder/wheels/pytest-1-py3-none-any.whl pytest)
check 0 PYTHONNOUSERSITE=1 PYTHON="$work/isolated"
has '`test_torch_cuda.py`: 2 skipped'
echo 'raise ImportError("NumPy is missing")' >"$work/folder/python/ffdl/__init__.py"
check 0
has 'Not run: ImportError: NumPy is missing.'
rm "$work/folder/bin/nlc"
check 2
grep -qF "'nlc' is neither" "$work/log" || fail "it does not name the program that is missing"
echo "check-gpu does as it says"
