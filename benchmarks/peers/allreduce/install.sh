#!/usr/bin/env bash
# Installs and builds the peers of the all_reduce benchmark into build/bench. A peer that is not
# available is named, with the reason; the others are still installed.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
source tools/setup.sh
source benchmarks/peers/venv.sh

sources=benchmarks/peers/allreduce
programs=build/bench/allreduce
flags=(-O3 -march=native -Wall -Wextra)
intel=(-I"$venv/include" -L"$venv/lib" -Wl,-rpath,"\$ORIGIN/../peers/lib")

make_openmpi() {
  # In a shell of its own: it ends the shell if it cannot install.
  (install_debian_packages $sources/debian-packages.txt) &&
    mpicc.openmpi "${flags[@]}" -o $programs/openmpi $sources/mpi.c
}

make_impi() {
  install_pinned $sources/impi.txt --no-deps &&
    "${CC:-cc}" "${flags[@]}" "${intel[@]}" -o $programs/impi $sources/mpi.c -lmpi
}

# The static library for CPUs needs no SYCL, which the package requests from pip. Intel's compiler
# built it, hence that compiler's run-time library.
make_oneccl() {
  install_pinned $sources/impi.txt --no-deps && install_pinned $sources/oneccl.txt --no-deps &&
    "${CXX:-c++}" -std=c++17 "${flags[@]}" "${intel[@]}" -o $programs/oneccl $sources/oneccl.cc \
      "$venv/lib/ccl/cpu/lib/libccl.a" -lmpi -l:libintlc.so.5 -l:libimf.so -lhwloc -ldl -pthread
}

make_gloo() {
  install_pinned benchmarks/peers/requirements.txt && cp $sources/gloo.py $programs/gloo
}

mkdir -p $programs build/log
for peer in openmpi impi oneccl gloo; do
  log=build/log/allreduce-$peer.log
  rm -f $programs/$peer
  if ! make_$peer >$log 2>&1; then
    rm -f $programs/$peer
    say "all_reduce peer '$peer' is missing: $(grep . $log | tail -1); see $log"
  fi
done
