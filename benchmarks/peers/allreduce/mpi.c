// The peer of plain MPI, built once for each MPI: mpi FOLDER

#include <mpi.h>

#include "turns.h"

// MPI ends the group itself when a call fails: that is its default.
static void all_reduce(float* values, size_t count, void* context) {
  (void)context;
  MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int rank, ranks;
  Turns turns;
  turns_open(&turns);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  turns_join(&turns, rank, ranks, argv[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  turns_serve(&turns, all_reduce, NULL);
  MPI_Finalize();
  return 0;
}
