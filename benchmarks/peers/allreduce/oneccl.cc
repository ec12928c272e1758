// The peer of Intel oneCCL on CPUs, without SYCL; MPI only starts it: oneccl FOLDER

#include <mpi.h>
#include <sched.h>

#include <oneapi/ccl.hpp>

#include "turns.h"

// oneCCL's static library needs Intel's tracing library, which is in no package. These function
// pointers are null, as in that library while no tracer listens.
#define NO_TRACER(function) void* __itt_##function##_ptr__3_0 = nullptr
extern "C" {
NO_TRACER(domain_create);
NO_TRACER(event_create);
NO_TRACER(event_end);
NO_TRACER(event_start);
NO_TRACER(metadata_add);
NO_TRACER(string_handle_create);
NO_TRACER(task_begin);
NO_TRACER(task_end);
NO_TRACER(thread_set_name);
}

namespace {

struct Group {
  ccl::communicator members;
  bool yields;  // more ranks than cores: oneCCL's own wait would keep the core from other ranks
};

void all_reduce(float* values, size_t count, void* context) {
  const auto& group = *static_cast<const Group*>(context);
  ccl::event done = ccl::allreduce(values, values, count, ccl::reduction::sum, group.members);
  if (!group.yields) return done.wait();
  while (!done.test()) sched_yield();
}

ccl::communicator make_group(int rank, int ranks) {
  ccl::shared_ptr_class<ccl::kvs> store;
  ccl::kvs::address_type address;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) store = ccl::create_kvs(address);
  return ccl::create_communicator(ranks, rank, store);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Turns turns;
  turns_open(&turns);
  ccl::init();
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    Group group{make_group(rank, ranks), ranks > sysconf(_SC_NPROCESSORS_ONLN)};
    turns_join(&turns, rank, ranks, argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    turns_serve(&turns, all_reduce, &group);
  }
  MPI_Finalize();
  return 0;
}
