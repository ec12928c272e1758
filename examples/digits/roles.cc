#include "digits/roles.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <vector>

#include "digits/child.h"
#include "digits/dataset.h"
#include "digits/message.h"
#include "digits/model.h"
#include "ffdl/learner.h"
#include "ffdl/parameter_server.h"

namespace digits {
namespace {

using ffdl::deadline_in;
using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;
using namespace std::chrono_literals;

// Longer than a restart of the server takes on a machine that is busy with something else.
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

Result<std::unique_ptr<ffdl::ParameterServer>> open_server(const Invocation& invocation) {
  if (invocation.adopt) return ffdl::ParameterServer::adopt(invocation.segment);
  const Model model;
  FFDL_ASSIGN_OR_RETURN(
      auto server, ffdl::ParameterServer::create(server_options(invocation, model.parameters())));
  model.initialize(server->weights(), invocation.options.seed);
  return server;
}

Status serve(const Invocation& invocation, const sigset_t& signals) {
  FFDL_ASSIGN_OR_RETURN(const auto server, open_server(invocation));
  FFDL_RETURN_IF_ERROR(server->start());
  send({.kind = Message::Kind::kReady});
  int number = 0;
  sigwait(&signals, &number);
  return server->stop();
}

// Mini-batches of one partition, from any position on. They end with the epoch: positions count
// epoch after epoch, and each epoch has an order of its own.
class MiniBatches {
 public:
  MiniBatches(const Samples& train, const TrainOptions& options, uint32_t partition)
      : train_(train),
        share_{partition, static_cast<uint32_t>(options.learners), train.size()},
        seed_(options.seed),
        size_(static_cast<uint64_t>(options.mini_batch)),
        end_(share_.size() * static_cast<uint64_t>(options.epochs)) {}

  uint64_t end() const { return end_; }

  // Fills `samples` with the mini-batch at `position` and returns the position after it.
  uint64_t fill(uint64_t position, Samples& samples) {
    const uint64_t epoch = position / share_.size();
    if (order_.empty() || epoch != epoch_) order_ = epoch_order(seed_, epoch, share_);
    epoch_ = epoch;
    const uint64_t first = position % share_.size();
    const uint64_t last = std::min(first + size_, share_.size());
    samples.clear();
    for (uint64_t i = first; i < last; ++i) {
      const uint64_t sample = share_.sample(order_[i]);
      samples.append(train_.image(sample), train_.labels[sample]);
    }
    return position + last - first;
  }

 private:
  const Samples& train_;
  Share share_;
  uint64_t seed_;
  uint64_t size_;
  uint64_t end_;
  uint64_t epoch_ = 0;
  std::vector<uint64_t> order_;
};

// Sends the mean loss and the position, now and then. The first mini-batch is reported at once:
// the supervisor waits for it after a restart.
class ProgressSender {
 public:
  void add(uint64_t position, float loss) {
    sum_ += loss;
    ++count_;
    const ffdl::Time now = std::chrono::steady_clock::now();
    if (now < next_) return;
    send({.kind = Message::Kind::kProgress,
          .position = position,
          .loss = sum_ / static_cast<float>(count_)});
    next_ = now + kReportInterval;
    sum_ = 0;
    count_ = 0;
  }

 private:
  ffdl::Time next_{};
  float sum_ = 0;
  int count_ = 0;
};

Status learn(const Invocation& invocation) {
  const TrainOptions& options = invocation.options;
  const auto partition = static_cast<uint32_t>(invocation.slot);
  FFDL_ASSIGN_OR_RETURN(const Samples all, load_samples(options.data));
  FFDL_ASSIGN_OR_RETURN(const Split split, split_samples(all));
  FFDL_ASSIGN_OR_RETURN(
      const auto learner,
      ffdl::Learner::attach(invocation.segment, deadline_in(kPatience), {.slot = invocation.slot}));
  Model model;
  std::vector<float> weights(model.parameters());
  MiniBatches mini_batches(split.train, options, partition);
  ProgressSender progress;
  Samples samples;
  // A predecessor that was killed has committed everything below this position, and nothing above.
  uint64_t position = learner->committed(partition);
  while (position < mini_batches.end()) {
    const uint64_t next = mini_batches.fill(position, samples);
    FFDL_ASSIGN_OR_RETURN(const auto gradient, learner->gradient_slot(deadline_in(kPatience)));
    FFDL_RETURN_IF_ERROR(learner->pull(weights).status());
    const float loss = model.gradient(weights, samples, gradient);
    FFDL_RETURN_IF_ERROR(learner->push({partition, position, next}).status());
    position = next;
    progress.add(position, loss);
  }
  return learner->detach(deadline_in(kPatience));
}

}  // namespace

int run_server(const Invocation& invocation) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  // Blocked in all threads: serve() waits for it, and then removes the segment.
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  follow_parent(invocation.parent, SIGTERM);
  return exit_code(serve(invocation, signals));
}

int run_learner(const Invocation& invocation) {
  follow_parent(invocation.parent, SIGKILL);
  return exit_code(learn(invocation));
}

}  // namespace digits
