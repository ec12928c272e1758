#include "training/roles.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <vector>

#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"
#include "layers/random.h"
#include "training/child.h"
#include "training/message.h"
#include "training/shares.h"
#include "training/worker.h"

namespace training {
namespace {

using ffdl::deadline_in;
using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;
using namespace std::chrono_literals;

// Longer than a restart of the server takes on a busy machine.
constexpr auto kPatience = 60s;
constexpr auto kReportInterval = 100ms;

int exit_code(const Status& status) {
  if (status.ok()) return 0;
  send({.kind = Message::Kind::kFailed, .reason = status.to_string()});
  const bool trying_again_helps = status.code() == StatusCode::kTimeout ||
                                  status.code() == StatusCode::kCancelled ||
                                  status.code() == StatusCode::kUnavailable;
  return trying_again_helps ? 1 : kExitFinal;
}

Result<std::unique_ptr<ffdl::ParameterServer>> open_server(const Example& example,
                                                           const Invocation& invocation) {
  if (invocation.adopt) return ffdl::ParameterServer::adopt(invocation.segment);
  FFDL_ASSIGN_OR_RETURN(const auto task, example.load(invocation.options.data));
  FFDL_ASSIGN_OR_RETURN(auto server,
                        ffdl::ParameterServer::create(server_options(invocation, *task)));
  task->initialize(server->weights(), invocation.options.seed);
  return server;
}

Status serve(const Example& example, const Invocation& invocation, const sigset_t& signals) {
  FFDL_ASSIGN_OR_RETURN(const auto server, open_server(example, invocation));
  FFDL_RETURN_IF_ERROR(server->start());
  send({.kind = Message::Kind::kReady});
  int number = 0;
  sigwait(&signals, &number);
  return server->stop();
}

// The mini-batches of one partition, from any position on. None crosses the end of an epoch.
// Positions continue from epoch to epoch, and each epoch has an order of its own.
class MiniBatches {
 public:
  MiniBatches(uint64_t train_samples, const TrainOptions& options, uint32_t partition)
      : share_{partition, static_cast<uint32_t>(options.learners), train_samples},
        seed_(options.seed),
        size_(static_cast<uint64_t>(options.mini_batch)),
        end_(share_.size() * static_cast<uint64_t>(options.epochs)) {}

  uint64_t end() const { return end_; }

  // The mini-batch at `position`, valid until the next call.
  MiniBatch at(uint64_t position) {
    const uint64_t epoch = position / share_.size();
    if (order_.empty() || epoch != epoch_) order_ = epoch_order(seed_, epoch, share_);
    epoch_ = epoch;
    const uint64_t first = position % share_.size();
    const uint64_t last = std::min(first + size_, share_.size());
    samples_.clear();
    for (uint64_t i = first; i < last; ++i) samples_.push_back(share_.sample(order_[i]));
    const ffdl::SampleRange range{share_.partition, position, position + last - first};
    // As in epoch_order(): the numbers drawn for one mini-batch are independent of another's.
    const uint64_t by_epoch = layers::Random(seed_).next() + epoch;
    return {samples_, range, layers::Random(by_epoch).next() + samples_.front()};
  }

 private:
  Share share_;
  uint64_t seed_;
  uint64_t size_;
  uint64_t end_;
  uint64_t epoch_ = 0;
  std::vector<uint64_t> order_;
  std::vector<uint64_t> samples_;
};

// Sends the mean loss, the position and the bytes at intervals. The first mini-batch is reported at
// once: the supervisor waits for it after a restart.
class ProgressSender {
 public:
  void add(const Step& step) {
    sum_ += step.loss;
    bytes_ += step.bytes;
    ++count_;
    position_ = step.end;
    if (std::chrono::steady_clock::now() >= next_) flush();
  }

  void flush() {
    if (count_ == 0) return;
    send({.kind = Message::Kind::kProgress,
          .position = position_,
          .loss = sum_ / static_cast<float>(count_),
          .bytes = bytes_});
    next_ = std::chrono::steady_clock::now() + kReportInterval;
    sum_ = 0;
    bytes_ = 0;
    count_ = 0;
  }

 private:
  ffdl::Time next_{};
  uint64_t position_ = 0;
  uint64_t bytes_ = 0;
  float sum_ = 0;
  int count_ = 0;
};

Result<std::unique_ptr<Worker>> attach_worker(Task& task, const Invocation& invocation) {
  const TrainOptions& options = invocation.options;
  const Workplace workplace{.segment = invocation.segment,
                            .slot = invocation.slot,
                            .mini_batch = options.mini_batch,
                            .waits = options.synchrony != "async"};
  if (options.device == kCuda) return task.attach_device_worker(workplace, deadline_in(kPatience));
  return attach_host_worker(task, workplace, deadline_in(kPatience));
}

Status learn(const Example& example, const Invocation& invocation) {
  const auto partition = static_cast<uint32_t>(invocation.slot);
  FFDL_ASSIGN_OR_RETURN(const auto task, example.load(invocation.options.data));
  FFDL_ASSIGN_OR_RETURN(const auto worker, attach_worker(*task, invocation));
  MiniBatches mini_batches(task->sizes().train, invocation.options, partition);
  ProgressSender progress;
  // A killed predecessor has committed everything below this position, and nothing above.
  uint64_t position = worker->learner().committed(partition);
  while (position < mini_batches.end()) {
    const MiniBatch mini_batch = mini_batches.at(position);
    FFDL_ASSIGN_OR_RETURN(const auto pushed, worker->step(mini_batch, deadline_in(kPatience)));
    if (pushed) progress.add(*pushed);
    position = mini_batch.range.end;
  }
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const auto pushed, worker->finish(deadline_in(kPatience)));
    if (!pushed) break;
    progress.add(*pushed);
  }
  progress.flush();
  return worker->learner().detach(deadline_in(kPatience));
}

}  // namespace

int run_server(const Example& example, const Invocation& invocation) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  // Blocked in all threads: serve() waits for it, and then removes the segment.
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  follow_parent(invocation.parent, SIGTERM);
  return exit_code(serve(example, invocation, signals));
}

int run_learner(const Example& example, const Invocation& invocation) {
  follow_parent(invocation.parent, SIGKILL);
  return exit_code(learn(example, invocation));
}

}  // namespace training
