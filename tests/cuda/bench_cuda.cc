#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "base/device.h"
#include "base/env.h"
#include "benchmarks/harness/suite.h"
#include "comm/gpu/nccl/library.h"
#include "cuda/bench_folds.h"
#include "cuda/bench_kernels.h"
#include "cuda/bench_members.h"
#include "cuda/bench_shared.h"
#include "cuda/bench_traffic.h"
#include "cuda/bench_worlds.h"

// Runs './dev bench cuda'. Measures the bytes per second that the kernels of cuda/ move, against
// the GPU's own copy. Measures traffic between GPU and host against copies of pinned memory.
// Measures a server that folds on the GPU, and sums among processes on one GPU. Measures how long
// NCCL takes to connect a job's next world. The program is built with the tests, since it uses much
// that is not public. `--facts` prints a description of this GPU, as the head of a page. The
// program starts itself with kMemberOption as each of the processes. Exit codes: those of
// benchmarks/README.md, and 4: this machine has no GPU.
namespace ffdl::bench {
namespace {

constexpr int kNoGpu = 4;

// Formats a version of CUDA: 13000 is 13.0.
std::string version_of_cuda(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void print_facts(const base::DeviceFacts& facts) {
  fmt::print("# ffdl on {}\n\n", facts.name);
  fmt::print("sm_{}{}, {} multiprocessors, {:.0f} GiB. CUDA: the driver knows {}, built with {}.\n",
             facts.major, facts.minor, facts.multiprocessors,
             static_cast<double>(facts.memory_bytes) / (1 << 30),
             version_of_cuda(facts.driver_version), version_of_cuda(facts.runtime_version));
  const auto nccl = comm::NcclLibrary::load(comm::nccl_places(base::environment()));
  if (nccl.ok()) {
    fmt::print("NCCL {}, {}.\n", comm::nccl_version_text((*nccl)->version()), (*nccl)->path());
  } else {
    fmt::print("No NCCL: {}.\n", nccl.status().message());
  }
}

int main_of(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == kMemberOption) {
    return run_member(argc - 2, argv + 2);
  }
  const auto device = base::find_device();
  if (!device.ok()) {
    fmt::print(stderr, "bench_cuda: {}\n", device.status().to_string());
    return device.status().code() == StatusCode::kUnimplemented ? kNoGpu : 1;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--facts") {
    print_facts(*device);
    return 0;
  }
  return Suite::run("cuda", argc, argv, [](Suite& suite) {
    add_kernel_rows(suite);
    add_traffic_rows(suite);
    add_fold_rows(suite);
    add_shared_rows(suite);
    add_world_rows(suite);
  });
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) { return ffdl::bench::main_of(argc, argv); }
