#include "cuda/bench_members.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/device.h"
#include "base/env.h"
#include "benchmarks/harness/pairs.h"
#include "comm/gpu/nccl/library.h"
#include "comm/operation/gather.h"
#include "ffdl/log.h"
#include "support/ranks.h"
#include "support/shared_gpu.h"

namespace ffdl::bench {
namespace {

using testing::members_named;

constexpr int kArguments = 4;  // the store, the rank, and the numbers of ranks and GPUs
constexpr uint64_t kControlGeneration = 1;
constexpr std::chrono::minutes kOperationMax{2};
constexpr std::chrono::minutes kOrderMax{10};

// The outcome of an order at one rank. Sent as raw bytes.
struct Outcome {
  uint64_t code = 0;  // a StatusCode
  double seconds = 0;
  char why[1008] = {};
};
static_assert(sizeof(Order) == 48 && sizeof(Outcome) == 1024);  // no padding, so no byte is unset

Time soon() { return deadline_in(kOperationMax); }

Buffer bytes_of(Order& order) { return {&order, sizeof order, DType::kInt8}; }

Result<std::unique_ptr<Communicator>> connect_control(Store& store, int rank, int ranks) {
  return connect_communicator({kControlGeneration, rank, members_named(ranks + 1, "control")},
                              store, soon());
}

// --- a member ------------------------------------------------------------------------------------

class Member {
 public:
  Member(Store& store, int rank, int gpus)
      : store_(store), rank_(rank), device_(rank % gpus), ready_(base::use_device(device_)) {}

  Outcome perform(const Order& order) {
    const Result<double> took = ready_.ok() ? run(order) : Result<double>(ready_);
    Outcome outcome;
    if (took.ok()) {
      outcome.seconds = *took;
    } else {
      outcome.code = static_cast<uint64_t>(took.status().code());
      const std::string_view why = took.status().message();
      std::memcpy(outcome.why, why.data(), std::min(why.size(), sizeof outcome.why - 1));
    }
    return outcome;
  }

 private:
  using Task = Order::Task;

  Result<double> run(const Order& order) {
    if (rank_ >= order.ranks) return 0.0;
    if (order.task == Task::kSum) return sum(order);
    Status status;
    const double seconds = seconds_of([&] { status = act(order); });
    FFDL_RETURN_IF_ERROR(std::move(status));
    return seconds;
  }

  Status act(const Order& order) {
    switch (order.task) {
      case Task::kConnect:
        return connect(order);
      case Task::kContinue:
        return go_on(order);
      case Task::kLose:
        return lose(order);
      case Task::kClose:
        at(order).reset();
        return {};
      case Task::kEnd:
        places_ = {};
        return {};
      case Task::kSum:
        break;
    }
    return Status(StatusCode::kInternal, "there is no such order");
  }

  Status connect(const Order& order) {
    at(order).reset();
    FFDL_ASSIGN_OR_RETURN(
        at(order),
        connect_communicator(
            {order.generation, rank_, members_named(order.ranks)}, store_, soon(),
            {.backend = order.backend, .device = device_, .gpu_worlds = order.gpu_worlds}));
    return {};
  }

  // Continues from the communicator in the other place. Only the log shows whether NCCL connected
  // anew.
  Status go_on(const Order& order) {
    FFDL_ASSIGN_OR_RETURN(Communicator* const communicator, present(order));
    std::string anew;
    set_log_sink([&](LogLevel, std::string_view line) {
      if (line.find("make new connections") != line.npos ||
          line.find("get new connections") != line.npos) {
        anew = line;
      }
    });
    const Status status =
        communicator->continue_from(places_[order.place == 0 ? 1 : 0].get(), soon());
    set_log_sink({});
    if (!status.ok() || order.must_derive == 0 || anew.empty()) return status;
    return Status(StatusCode::kUnavailable, anew);
  }

  Result<double> sum(const Order& order) {
    FFDL_ASSIGN_OR_RETURN(Communicator* const communicator, present(order));
    FFDL_ASSIGN_OR_RETURN(const Buffer buffer, buffer_of(order.bytes));
    FFDL_RETURN_IF_ERROR(communicator->barrier(soon()));
    Status status;
    const double seconds = seconds_of([&] {
      for (int i = 0; i < order.calls && status.ok(); ++i) {
        status = communicator->all_reduce(buffer, ReduceOp::kMax, soon());
      }
    });
    FFDL_RETURN_IF_ERROR(std::move(status));
    return seconds;
  }

  Status lose(const Order& order) {
    constexpr int kSumsBefore = 3;
    FFDL_ASSIGN_OR_RETURN(Communicator* const communicator, present(order));
    FFDL_ASSIGN_OR_RETURN(const Buffer buffer, buffer_of(order.bytes));
    const bool is_lost = rank_ == order.ranks - 1;
    std::thread shot;
    for (int sums = 0; communicator->all_reduce(buffer, ReduceOp::kMax, soon()).ok(); ++sums) {
      if (is_lost && sums == kSumsBefore) {
        shot = std::thread([communicator] { communicator->abort({}); });
      }
    }
    if (shot.joinable()) shot.join();
    return {};
  }

  std::unique_ptr<Communicator>& at(const Order& order) {
    return places_[order.place == 0 ? 0 : 1];
  }

  Result<Communicator*> present(const Order& order) {
    if (at(order) != nullptr) return at(order).get();
    return Status(StatusCode::kUnavailable, "it is not connected");
  }

  Result<Buffer> buffer_of(uint64_t bytes) {
    if (bytes > room_) {
      memory_.reset();
      room_ = 0;
      FFDL_ASSIGN_OR_RETURN(memory_, base::allocate_on_device(bytes));
      room_ = bytes;
    }
    return Buffer{memory_.get(), bytes / sizeof(float)};
  }

  Store& store_;
  const int rank_;
  const int device_;
  const Status ready_;
  std::array<std::unique_ptr<Communicator>, 2> places_;
  base::DeviceMemory memory_;
  uint64_t room_ = 0;  // in bytes
};

// Executes orders until it is ordered to end, or the measuring process is gone.
Status serve(const std::string& url, int rank, int ranks, int gpus) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(url, system_runtime()));
  FFDL_ASSIGN_OR_RETURN(const auto control, connect_control(*store, rank + 1, ranks));
  Member member(*store, rank, gpus);
  Order order;
  do {
    FFDL_RETURN_IF_ERROR(control->broadcast(bytes_of(order), 0, kNoDeadline));
    FFDL_RETURN_IF_ERROR(
        comm::gather_from_all(*control, member.perform(order), deadline_in(kOrderMax)).status());
  } while (order.task != Order::Task::kEnd);
  return {};
}

Result<std::string> this_program() {
  std::array<char, 4096> path{};
  const ssize_t bytes = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (bytes > 0) return std::string(path.data());
  return Status(StatusCode::kUnavailable,
                "start members: /proc/self/exe does not say what this is");
}

}  // namespace

// --- the measuring process -----------------------------------------------------------------------

Members::Members(int ranks) : ranks_(ranks) {}

Result<std::unique_ptr<Members>> Members::start(int ranks, int gpus) {
  FFDL_ASSIGN_OR_RETURN(const std::string program, this_program());
  const auto nccl = comm::NcclLibrary::load(comm::nccl_places(base::environment()));
  auto members = std::unique_ptr<Members>(new Members(ranks));
  const std::string url = "file://" + members->folder_.path();
  for (int rank = 0; rank < ranks; ++rank) {
    const bool shares = nccl.ok() && gpus < ranks;
    members->processes_.push_back(std::make_unique<StartedProgram>(
        fmt::format("env FFDL_LOG=info {} '{}' {} '{}' {} {} {}",
                    shares ? testing::shared_gpu_environment((*nccl)->version(), rank) : "",
                    program, kMemberOption, url, rank, ranks, gpus),
        members->folder_.file(fmt::format("output{}", rank))));
  }
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(url, system_runtime()));
  auto control = connect_control(*store, 0, ranks);
  if (!control.ok()) return std::move(control).status().with_context(members->outputs());
  members->control_ = std::move(control).value();
  return members;
}

Members::~Members() {
  if (control_ != nullptr) static_cast<void>(tell({.task = Order::Task::kEnd}));
}

Result<double> Members::tell(Order order) {
  if (order.ranks == 0) order.ranks = ranks_;
  order.generation = kControlGeneration + ++generation_;
  Status told = control_->broadcast(bytes_of(order), 0, soon());
  if (!told.ok()) return std::move(told).with_context(outputs());
  auto outcomes = comm::gather_from_all(*control_, Outcome(), deadline_in(kOrderMax));
  if (!outcomes.ok()) return std::move(outcomes).status().with_context(outputs());
  double seconds = 0;
  for (size_t i = 1; i < outcomes->size(); ++i) {
    const Outcome& outcome = (*outcomes)[i];
    if (outcome.code != 0) {
      return Status(static_cast<StatusCode>(outcome.code),
                    fmt::format("rank {}: {}", i - 1, outcome.why));
    }
    seconds = std::max(seconds, outcome.seconds);
  }
  return seconds;
}

std::string Members::outputs() const {
  std::string all = "members";
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    const std::string output = processes_[rank]->output();
    if (!output.empty()) all += fmt::format("; rank {} wrote: {}", rank, output);
  }
  return all;
}

int run_member(int count, char** arguments) {
  if (count != kArguments) return 2;
  const Status status = serve(arguments[0], std::atoi(arguments[1]), std::atoi(arguments[2]),
                              std::atoi(arguments[3]));
  if (!status.ok()) fmt::print(stderr, "{}\n", status.to_string());
  return status.ok() ? 0 : 1;
}

}  // namespace ffdl::bench
