#!/bin/sh
# Starts a group of one peer of the all_reduce benchmark: run.sh PEER RANKS
# PEER is openmpi | openmpi_default | impi | oneccl | gloo. The group prints "ready", and answers
# each line "COUNT BYTES" with the seconds of COUNT all_reduces, until its standard input ends.
set -eu
cd "$(dirname "$0")/../../.."
peer=$1
ranks=$2
cores=$(nproc)
case $peer in
  openmpi | openmpi_default | impi | oneccl | gloo) ;;
  *)
    echo "the peer '$peer' is not openmpi, openmpi_default, impi, oneccl or gloo" >&2
    exit 2
    ;;
esac
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

# The settings were compared in a few interleaved turns on a machine of two cores that was not
# quiet: enough to drop what is far slower, not to rank the rest.
case $peer in
  openmpi_default) ;;
  openmpi)
    # Tried for all_reduce: its own choice, recursive doubling, ring, segmented ring, Rabenseifner;
    # single copy on and off; eager limits of 4 (default), 32 and 64 KiB. Recursive doubling and no
    # single copy lost clearly; segments of 256 KiB had the best turn at 100 MiB.
    set -- "$@" --mca pml ob1 --mca btl self,vader --mca coll_tuned_use_dynamic_rules 1
    if [ "$ranks" -le "$cores" ]; then
      set -- "$@" --bind-to core --mca coll_tuned_allreduce_algorithm 5 \
        --mca coll_tuned_allreduce_algorithm_segmentsize 262144
    else
      # Here only the default, ring and Rabenseifner were tried, in one turn each.
      set -- "$@" --bind-to none --mca mpi_yield_when_idle 1 \
        --mca coll_tuned_allreduce_algorithm 6
    fi
    ;;
  impi | oneccl)
    # Tried: I_MPI_PIN=0 (far worse at 2 ranks), CMA off, larger shared-memory cells, all_reduce
    # algorithms 2, 8 and 12 (12 was best at 100 MiB, the default below 16 MiB); with more ranks
    # than cores I_MPI_THREAD_YIELD=2 and 3 and I_MPI_WAIT_MODE=1. oneCCL without its worker
    # threads: direct, ring, rabenseifner (best at 100 MiB), nreduce and recursive_doubling.
    export I_MPI_ROOT="$venv" I_MPI_FABRICS=shm I_MPI_HYDRA_IFACE=lo
    export CCL_ATL_TRANSPORT=mpi CCL_WORKER_OFFLOAD=0 CCL_KVS_IFACE=lo
    if [ "$ranks" -gt "$cores" ]; then
      export I_MPI_PIN=0
      if [ "$peer" = impi ]; then export I_MPI_WAIT_MODE=1; else export I_MPI_THREAD_YIELD=2; fi
    elif [ "$peer" = impi ]; then
      export I_MPI_ADJUST_ALLREDUCE='12:16777216-2147483647'
    fi
    [ "$peer" = impi ] || export CCL_ALLREDUCE='direct:0-16777215;rabenseifner:16777216-max'
    ;;
  gloo) exec "$venv/bin/python" "$program" "$ranks" "$folder" ;;
esac
case $peer in
  openmpi*) exec mpirun.openmpi "$@" -n "$ranks" "$program" "$folder" ;;
  *) exec "$venv/bin/mpiexec.hydra" -n "$ranks" "$program" "$folder" ;;
esac
