#!/bin/sh
# Starts a group of one peer of the all_reduce benchmark: run.sh PEER RANKS
# PEER is openmpi | openmpi_default | impi | oneccl | gloo. The group prints "ready", and answers each
# line "COUNT BYTES" with the seconds of COUNT all_reduces, until its standard input ends.
set -eu
cd "$(dirname "$0")/../../.."
peer=$1
ranks=$2
cores=$(nproc)
venv=$PWD/build/bench/peers
program=$PWD/build/bench/allreduce/${peer%_default}

if [ ! -f "$program" ]; then
  echo "the peer '$peer' is not installed: benchmarks/peers/allreduce/install.sh says why" >&2
  exit 3
fi
folder=$(mktemp -d)

case $peer in
  openmpi*)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    set -- --mca oob_tcp_if_include lo
    [ "$ranks" -le "$cores" ] || set -- "$@" --oversubscribe
    ;;
esac

case $peer in
  openmpi_default) ;;
  openmpi)
    set -- "$@" --mca pml ob1 --mca btl self,vader
    if [ "$ranks" -le "$cores" ]; then
      set -- "$@" --bind-to core
    else
      set -- "$@" --bind-to none --mca mpi_yield_when_idle 1
    fi
    ;;
  impi | oneccl)
    export I_MPI_ROOT="$venv" I_MPI_FABRICS=shm I_MPI_HYDRA_IFACE=lo
    export CCL_ATL_TRANSPORT=mpi CCL_WORKER_OFFLOAD=0 CCL_KVS_IFACE=lo CCL_LOG_LEVEL=error
    ;;
  gloo) exec "$venv/bin/python" "$program" "$ranks" "$folder" ;;
  *)
    echo "the peer '$peer' is not openmpi, openmpi_default, impi, oneccl or gloo" >&2
    exit 2
    ;;
esac
case $peer in
  openmpi*) exec mpirun.openmpi "$@" -n "$ranks" "$program" "$folder" ;;
  *) exec "$venv/bin/mpiexec.hydra" -n "$ranks" "$program" "$folder" ;;
esac
