#include "cuda/bench_traffic.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/device.h"
#include "base/device_side.h"
#include "elastic/state/staged_memory.h"
#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"

namespace ffdl::bench {
namespace {

constexpr double kTrafficTarget = 0.9;
constexpr Duration kPatience = std::chrono::seconds(60);
constexpr int kRounds = 4;  // per turn

// Owns two arrays of the GPU, and two of pinned memory.
class Buses {
 public:
  static Result<Buses> make(uint64_t bytes) {
    Buses made;
    made.bytes_ = bytes;
    for (int i = 0; i < 2; ++i) {
      FFDL_ASSIGN_OR_RETURN(made.there_[i], base::allocate_on_device(bytes));
      FFDL_ASSIGN_OR_RETURN(made.here_[i], base::allocate_pinned(bytes));
      FFDL_ASSIGN_OR_RETURN(made.streams_[i], base::make_device_stream());
      FFDL_RETURN_IF_ERROR(
          base::copy_on_device(made.there_[i].get(), made.here_[i].get(), bytes, nullptr));
    }
    FFDL_RETURN_IF_ERROR(base::wait_for_device(nullptr));
    return made;
  }

  uint64_t bytes() const { return bytes_; }
  std::byte* there(int i) const { return there_[i].get(); }
  std::byte* here(int i) const { return here_[i].get(); }
  Status to_device() const { return copy(there_[0].get(), here_[0].get(), 0); }
  Status to_host() const { return copy(here_[1].get(), there_[1].get(), 1); }
  Status both() const {
    FFDL_RETURN_IF_ERROR(to_device());
    return to_host();
  }
  Status wait() const {
    FFDL_RETURN_IF_ERROR(base::wait_for_device(streams_[0].get()));
    return base::wait_for_device(streams_[1].get());
  }

 private:
  Status copy(std::byte* to, const std::byte* from, int stream) const {
    return base::copy_on_device(to, from, bytes_, streams_[stream].get());
  }

  uint64_t bytes_ = 0;
  base::DeviceMemory there_[2];
  base::PinnedMemory here_[2];
  base::OwnedDeviceStream streams_[2];
};

// Returns the seconds of kRounds rounds.
Turn turn_of(std::function<Status()> round) {
  return [round = std::move(round)]() -> Result<double> {
    Status status;
    const double seconds = seconds_of([&] {
      for (int i = 0; i < kRounds && status.ok(); ++i) status = round();
    });
    FFDL_RETURN_IF_ERROR(std::move(status));
    return seconds;
  };
}

Turn turn_of(const Buses& buses, Status (Buses::*copy)() const) {
  return turn_of([&buses, copy]() -> Status {
    FFDL_RETURN_IF_ERROR((buses.*copy)());
    return buses.wait();
  });
}

PairSpec row(std::string name, uint64_t bytes, Turn subject, Turn limit, std::string limit_is) {
  const double all = static_cast<double>(bytes) * kRounds;
  return {.name = std::move(name),
          .unit = "GB/s",
          .figure = [all](double seconds) { return all / seconds / 1e9; },
          .subject = std::move(subject),
          .limit = std::move(limit),
          .limit_is = std::move(limit_is),
          .pairs = 40,
          .target = Target{kTrafficTarget}};
}

void measure(Suite& suite, PairSpec spec) {
  if (suite.wants(spec.name)) suite.measure(std::move(spec));
}

// Adds the traffic of a session's state through two slices.
Status add_slices(Suite& suite, const Buses& buses) {
  FFDL_ASSIGN_OR_RETURN(auto chosen, base::choose_gpu(-1, nullptr));
  FFDL_ASSIGN_OR_RETURN(const auto memory, elastic::StagedMemory::create(std::move(chosen)));
  const auto visit = [&](elastic::Access access) {
    return turn_of([&, access] {
      const Buffer state = {buses.there(1), buses.bytes() / sizeof(float)};
      return memory->visit({&state, 1}, access, [](const Buffer&) { return Status(); });
    });
  };
  measure(suite, row("cuda/slices/to_host", buses.bytes(), visit(elastic::Access::kRead),
                     turn_of(buses, &Buses::to_host), "one copy to pinned memory"));
  measure(suite, row("cuda/slices/to_device", buses.bytes(), visit(elastic::Access::kWrite),
                     turn_of(buses, &Buses::to_device), "one copy from pinned memory"));
  return {};
}

// Adds the traffic of a learner: its gradient and its weights, in opposite directions at once. Then
// each alone: a pull beside the copy, and a push beside the same one of a gradient of the host.
Status add_learner(Suite& suite, const Buses& buses) {
  const uint64_t parameters = buses.bytes() / sizeof(float);
  constexpr int kServerThreads = 4;  // a single one would delay the pushes
  FFDL_ASSIGN_OR_RETURN(const auto server, ParameterServer::create({.parameters = parameters,
                                                                    .threads = kServerThreads,
                                                                    .learners_max = 2}));
  FFDL_RETURN_IF_ERROR(server->start());
  FFDL_ASSIGN_OR_RETURN(const auto learner,
                        Learner::attach(*server, deadline_in(kPatience), {.device = -1}));
  FFDL_ASSIGN_OR_RETURN(const auto on_host, Learner::attach(*server, deadline_in(kPatience)));
  const std::span weights(reinterpret_cast<float*>(buses.there(0)), parameters);
  const std::span<const float> gradient(reinterpret_cast<const float*>(buses.there(1)), parameters);
  const std::span<const float> same(reinterpret_cast<const float*>(buses.here(1)), parameters);
  uint64_t next = 0;
  const auto start_push = [&](Learner& by, std::span<const float> values) {
    const SampleRange samples{.partition = 0, .begin = next, .end = next + 1};
    ++next;
    return by.start_push(values, samples);
  };
  const auto push = [&](Learner& by, std::span<const float> values) -> Status {
    FFDL_RETURN_IF_ERROR(start_push(by, values));
    return by.finish_push(deadline_in(kPatience)).status();
  };
  const auto pull = [&]() -> Status {
    FFDL_RETURN_IF_ERROR(learner->start_pull(weights));
    return learner->finish_pull(deadline_in(kPatience)).status();
  };
  const auto both = [&]() -> Status {
    FFDL_RETURN_IF_ERROR(start_push(*learner, gradient));
    FFDL_RETURN_IF_ERROR(pull());
    return learner->finish_push(deadline_in(kPatience)).status();
  };
  std::vector<PairSpec> rows;
  rows.push_back(row("cuda/learner/both_ways", 2 * buses.bytes(), turn_of(both),
                     turn_of(buses, &Buses::both), "two copies of pinned memory at once"));
  rows.push_back(row("cuda/learner/pull", buses.bytes(), turn_of(pull),
                     turn_of(buses, &Buses::to_device), "one copy from pinned memory"));
  rows.push_back(row("cuda/learner/push", buses.bytes(),
                     turn_of([&] { return push(*learner, gradient); }),
                     turn_of([&] { return push(*on_host, same); }),
                     "the same push of a gradient in the host's memory"));
  for (PairSpec& spec : rows) {
    if (!learner->not_pinned().empty()) spec.note = learner->not_pinned();
    measure(suite, std::move(spec));
  }
  FFDL_RETURN_IF_ERROR(on_host->detach(deadline_in(kPatience)));
  FFDL_RETURN_IF_ERROR(learner->detach(deadline_in(kPatience)));
  return server->stop();
}

}  // namespace

void add_traffic_rows(Suite& suite) {
  const auto buses = Buses::make(suite.options().smoke ? 1 << 16 : 1 << 28);
  if (!buses.ok()) return suite.failed("cuda/pinned", buses.status());
  const auto value = [&](std::string name, uint64_t bytes, const Turn& turn) {
    if (!suite.wants(name)) return;
    suite.measure(
        ValueSpec{.name = std::move(name), .unit = "GB/s", .sample = [=]() -> Result<double> {
                    FFDL_ASSIGN_OR_RETURN(const double seconds, turn());
                    return static_cast<double>(bytes) * kRounds / seconds / 1e9;
                  }});
  };
  value("cuda/pinned/to_device", buses->bytes(), turn_of(*buses, &Buses::to_device));
  value("cuda/pinned/to_host", buses->bytes(), turn_of(*buses, &Buses::to_host));
  value("cuda/pinned/both_ways", 2 * buses->bytes(), turn_of(*buses, &Buses::both));
  if (const Status added = add_slices(suite, *buses); !added.ok()) {
    suite.failed("cuda/slices", added);
  }
  if (const Status added = add_learner(suite, *buses); !added.ok()) {
    suite.failed("cuda/learner", added);
  }
}

}  // namespace ffdl::bench
