#include "cuda/bench_worlds.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/device.h"
#include "base/env.h"
#include "comm/gpu/nccl/library.h"
#include "comm/gpu/nccl/plan.h"
#include "cuda/bench_members.h"
#include "support/shared_gpu.h"

namespace ffdl::bench {
namespace {

using Task = Order::Task;

constexpr int kWorldSamples = 5;
constexpr int kRanksMin = 3;  // two ranks that grow by one
constexpr int kGpusMax = 8;

// Measures worlds of some members of NCCL. All preparation is done before the clock of a figure
// starts. It includes a first sum, which opens the connections that NCCL opens on demand.
class Worlds {
 public:
  Worlds(Members& members, int ranks) : members_(members), ranks_(ranks) {}

  // Returns the milliseconds until the last rank is connected.
  Result<double> anew() { return alone(&Worlds::connect_anew); }
  // Returns the share of that which is not NCCL's.
  Result<double> hosts() { return alone(&Worlds::connect_hosts); }
  // Return the milliseconds to grow by one rank, to shrink by one rank, and to shrink after a loss
  // in the middle of a sum.
  Result<double> grown() { return alone(&Worlds::grow); }
  Result<double> shrunk() { return alone(&Worlds::shrink); }
  Result<double> survived() { return alone(&Worlds::survive); }

 private:
  static constexpr uint64_t kSumBytes = uint64_t{4} << 20;

  // Measures one way, and ends its worlds even if it failed.
  Result<double> alone(Result<double> (Worlds::*way)()) {
    const Result<double> took = (this->*way)();
    for (const int place : {0, 1}) {
      FFDL_RETURN_IF_ERROR(members_.tell({.task = Task::kClose, .place = place}).status());
    }
    FFDL_RETURN_IF_ERROR(Status(took.status()));
    return *took * 1e3;
  }

  Result<double> connect(int place, int ranks, GpuWorlds worlds) {
    return members_.tell(
        {.task = Task::kConnect, .ranks = ranks, .place = place, .gpu_worlds = worlds});
  }
  Result<double> connect_anew() { return connect(0, ranks_, GpuWorlds::kFresh); }
  Result<double> connect_hosts() { return connect(0, ranks_, GpuWorlds::kReuse); }

  // Connects a first world, at place 0.
  Status begin(int ranks) {
    FFDL_RETURN_IF_ERROR(connect(0, ranks, GpuWorlds::kReuse).status());
    FFDL_RETURN_IF_ERROR(members_.tell({.task = Task::kContinue, .ranks = ranks}).status());
    return members_.tell({.task = Task::kSum, .ranks = ranks, .bytes = kSumBytes}).status();
  }
  // Derives the next world, which is the part that is measured.
  Result<double> derive(int ranks) {
    FFDL_RETURN_IF_ERROR(connect(1, ranks, GpuWorlds::kReuse).status());
    return members_.tell({.task = Task::kContinue, .ranks = ranks, .place = 1, .must_derive = 1});
  }

  Result<double> grow() {
    FFDL_RETURN_IF_ERROR(begin(ranks_ - 1));
    return derive(ranks_);
  }
  Result<double> shrink() {
    FFDL_RETURN_IF_ERROR(begin(ranks_));
    return derive(ranks_ - 1);
  }
  Result<double> survive() {
    FFDL_RETURN_IF_ERROR(begin(ranks_));
    FFDL_RETURN_IF_ERROR(
        members_.tell({.task = Task::kLose, .ranks = ranks_, .bytes = kSumBytes}).status());
    return derive(ranks_ - 1);
  }

  Members& members_;
  const int ranks_;
};

struct Way {
  const char* name;
  Result<double> (Worlds::*sample)();
  uint32_t needs;  // the calls of NCCL that it needs, as comm::NcclPast
  const char* note;
};
constexpr Way kWays[] = {
    {"anew", &Worlds::anew, 0, "from nothing, while a session trains on"},
    {"hosts", &Worlds::hosts, 0, "what of 'anew' is not NCCL's"},
    {"grown", &Worlds::grown, comm::NcclPast::kGrow, "by one rank; all wait"},
    {"shrunk", &Worlds::shrunk, comm::NcclPast::kShrink, "by one rank; all wait"},
    {"survived", &Worlds::survived, comm::NcclPast::kShrink, "shrunk after a loss; all wait"}};

int count_gpus() {
  const Result<int> before = base::device_in_use();
  int count = 0;
  while (count < kGpusMax && base::use_device(count).ok()) ++count;
  if (before.ok()) static_cast<void>(base::use_device(*before));
  return std::max(count, 1);
}

// Measures one way; returns false if its first attempt reports that NCCL cannot do it here.
bool measure_way(Suite& suite, Worlds worlds, const std::string& name, const Way& way,
                 const std::string& where) {
  const auto sample = [&worlds, &way] { return (worlds.*way.sample)(); };
  const Result<double> first = sample();
  if (!first.ok()) {
    suite.missing(name, std::string(first.status().message()));
    return false;
  }
  suite.measure(ValueSpec{.name = name,
                          .unit = "ms",
                          .sample = sample,
                          .samples = kWorldSamples,
                          .warm_up = 0,
                          .note = fmt::format("{}; {}", way.note, where)});
  return true;
}

using Library = Result<std::shared_ptr<const comm::NcclLibrary>>;

// Returns the reason why this way is not available here; empty: it may be.
std::string hindrance(const Library& library, const Way& way) {
  if (!library.ok()) return std::string(library.status().message());
  if ((comm::nccl_calls((*library)->functions()) & way.needs) == way.needs) return {};
  return fmt::format("NCCL {} cannot do this", comm::nccl_version_text((*library)->version()));
}

std::string describe(int version, int ranks, int gpus) {
  const std::string text = comm::nccl_version_text(version);
  if (gpus >= ranks) return fmt::format("NCCL {}, a GPU for each rank", text);
  return fmt::format("NCCL {}, ranks share {} GPU{} with {}", text, gpus, gpus == 1 ? "" : "s",
                     testing::shared_gpu_environment(version, 0));
}

Status add_ranks(Suite& suite, const Library& library, int ranks, int gpus) {
  std::unique_ptr<Members> members;
  for (const Way& way : kWays) {
    const std::string name = fmt::format("cuda/worlds/{}/{}", ranks, way.name);
    if (!suite.wants(name)) continue;
    if (const std::string reason = hindrance(library, way); !reason.empty()) {
      suite.missing(name, reason);
      continue;
    }
    if (members == nullptr) {
      FFDL_ASSIGN_OR_RETURN(members, Members::start(ranks, gpus));
    }
    const std::string where = describe((*library)->version(), ranks, gpus);
    // A member that failed may have ended.
    if (!measure_way(suite, {*members, ranks}, name, way, where)) members.reset();
  }
  return {};
}

}  // namespace

void add_world_rows(Suite& suite) {
  const Library library = comm::NcclLibrary::load(comm::nccl_places(base::environment()));
  const int gpus = count_gpus();
  std::vector<int> sizes = {kRanksMin};
  if (gpus > kRanksMin && !suite.options().smoke) sizes.push_back(gpus);
  for (const int ranks : sizes) {
    const Status added = add_ranks(suite, library, ranks, gpus);
    if (!added.ok()) suite.failed(fmt::format("cuda/worlds/{}", ranks), added);
  }
}

}  // namespace ffdl::bench
