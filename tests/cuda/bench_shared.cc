#include "cuda/bench_shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/env.h"
#include "comm/gpu/nccl/library.h"
#include "cuda/bench_members.h"
#include "support/shared_gpu.h"

namespace ffdl::bench {
namespace {

using Task = Order::Task;

struct Size {
  const char* name;
  uint64_t bytes;
  int calls;  // per turn
  int pairs;
};
constexpr Size kSizes[] = {{"4KiB", uint64_t{4} << 10, 20, 100},
                           {"64KiB", uint64_t{64} << 10, 20, 100},
                           {"1MiB", uint64_t{1} << 20, 10, 60},
                           {"16MiB", uint64_t{16} << 20, 5, 40},
                           {"256MiB", uint64_t{256} << 20, 1, 20}};

std::string name_of(const Size& size, int ranks) {
  return fmt::format("cuda/shared/{}/{}", size.name, ranks);
}

// Connects all members over NCCL. Returns a description of NCCL and of its settings.
Result<std::string> connect_nccl(Members& members, int ranks) {
  constexpr int kRanksMax = 2;
  FFDL_ASSIGN_OR_RETURN(const auto library,
                        comm::NcclLibrary::load(comm::nccl_places(base::environment())));
  const std::string version = comm::nccl_version_text(library->version());
  if (ranks > kRanksMax) {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("NCCL {} is for about {} ranks on one GPU", version, kRanksMax));
  }
  FFDL_RETURN_IF_ERROR(
      members.tell({.task = Task::kConnect, .place = 1, .backend = Backend::kNccl}).status());
  return fmt::format("NCCL {} with {}", version,
                     testing::shared_gpu_environment(library->version(), 0));
}

void measure_size(Suite& suite, Members& members, int ranks, const Size& size,
                  const Result<std::string>& nccl) {
  const Order through_memory = {.task = Task::kSum, .calls = size.calls, .bytes = size.bytes};
  Order over_nccl = through_memory;
  over_nccl.place = 1;
  const auto microseconds = [calls = size.calls](double seconds) { return seconds * 1e6 / calls; };
  if (nccl.ok()) {
    return suite.measure(
        PairSpec{.name = name_of(size, ranks),
                 .unit = "us",
                 .figure = microseconds,
                 .subject = [&members, through_memory] { return members.tell(through_memory); },
                 .limit = [&members, over_nccl] { return members.tell(over_nccl); },
                 .limit_is = *nccl,
                 .pairs = size.pairs});
  }
  suite.measure(ValueSpec{.name = name_of(size, ranks),
                          .unit = "us",
                          .sample = [&]() -> Result<double> {
                            FFDL_ASSIGN_OR_RETURN(const double seconds,
                                                  members.tell(through_memory));
                            return microseconds(seconds);
                          },
                          .note = fmt::format("not beside NCCL: {}", nccl.status().message())});
}

Status add_ranks(Suite& suite, int ranks, const std::vector<Size>& sizes) {
  FFDL_ASSIGN_OR_RETURN(const auto members, Members::start(ranks, 1));
  FFDL_RETURN_IF_ERROR(
      members->tell({.task = Task::kConnect, .backend = Backend::kDeviceShm}).status());
  const Result<std::string> nccl = connect_nccl(*members, ranks);
  for (const Size& size : sizes) measure_size(suite, *members, ranks, size, nccl);
  return {};
}

}  // namespace

void add_shared_rows(Suite& suite) {
  for (const int ranks : {2, 4}) {
    std::vector<Size> sizes;
    for (const Size& size : kSizes) {
      const bool is_small = size.bytes <= kSizes[0].bytes;
      const bool wanted = suite.wants(name_of(size, ranks));
      if (wanted && (is_small || !suite.options().smoke)) sizes.push_back(size);
    }
    if (sizes.empty()) continue;
    const Status added = add_ranks(suite, ranks, sizes);
    const std::string rows = fmt::format("cuda/shared/{}", ranks);
    if (added.code() == StatusCode::kUnimplemented) {
      suite.missing(rows, std::string(added.message()));
    } else if (!added.ok()) {
      suite.failed(rows, added);
    }
  }
}

}  // namespace ffdl::bench
