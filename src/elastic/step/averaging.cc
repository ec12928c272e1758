#include "elastic/step/averaging.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"
#include "elastic/step/scale.h"

namespace ffdl::elastic {

using base::MutexLock;

std::vector<std::span<const Buffer>> cut_buckets(std::span<const Buffer> gradients,
                                                 uint64_t bytes) {
  std::vector<std::span<const Buffer>> buckets;
  while (!gradients.empty()) {
    size_t count = 1;
    uint64_t has = bytes_of(gradients.front());
    while (count < gradients.size() && gradients[count].dtype == gradients.front().dtype &&
           (bytes == 0 || has < bytes)) {
      has += bytes_of(gradients[count++]);
    }
    buckets.push_back(gradients.first(count));
    gradients = gradients.subspan(count);
  }
  return buckets;
}

Averaging::Averaging(const std::vector<std::span<const Buffer>>& buckets, StepMessages& messages,
                     Seams seams)
    : buckets_(buckets),
      messages_(messages),
      seams_(std::move(seams)),
      may_go_on_(seams_.runtime.make_event()),
      has_paused_(seams_.runtime.make_event()) {}

Averaging::~Averaging() {
  if (!task_) return;
  task_->request_stop();
  may_go_on_->set();
  task_.reset();
}

std::span<const Buffer> join_neighbours(std::span<const Buffer> bucket, Buffer& joined) {
  joined = bucket.front();
  const auto* end = static_cast<const std::byte*>(joined.data) + bytes_of(joined);
  for (const Buffer& buffer : bucket.subspan(1)) {
    if (buffer.data != end) return bucket;
    joined.count += buffer.count;
    end += bytes_of(buffer);
  }
  return {&joined, 1};
}

// --- calls that let the task run
// -------------------------------------------------------------------

Status Averaging::note(size_t end, uint64_t samples) {
  size_t buffers = 0;
  for (const auto bucket : buckets_) buffers += bucket.size();
  if (end > buffers) {
    return base::invalid_argument(
        "begin to average {} gradients: there are {}; name at most that many", end, buffers);
  }
  if (noted_samples_ && *noted_samples_ != samples) {
    return base::invalid_argument(
        "average gradients over {} samples: this step was begun with {}; give the same number in "
        "each call of a step: all of this member's samples in that step",
        samples, *noted_samples_);
  }
  noted_samples_ = samples;
  noted_end_ = std::max(noted_end_, end);
  return {};
}

void Averaging::start(std::shared_ptr<Communicator> communicator, std::span<std::byte> message) {
  communicator_ = std::move(communicator);
  message_ = message;
  if (!task_) {
    task_ = seams_.runtime.spawn("ffdl-average", [this](const StopToken& stop) { serve(stop); });
  }
  if (!task_) communicator_ = nullptr;  // no thread is left: the user's thread runs everything
}

// Counts the exchange of messages and each complete bucket.
size_t Averaging::operations_noted() const {
  size_t operations = 1;
  size_t end = 0;
  for (const auto bucket : buckets_) {
    end += bucket.size();
    if (end > noted_end_) break;
    ++operations;
  }
  return operations;
}

void Averaging::go_on() {
  {
    MutexLock lock(mutex_);
    const size_t noted = operations_noted();
    if (noted == allowed_) return;
    allowed_ = noted;
  }
  may_go_on_->set();
}

bool Averaging::pause(Time deadline) {
  while (true) {
    has_paused_->reset();
    {
      MutexLock lock(mutex_);
      allowed_ = 0;
      if (!is_in_turn_) return true;
    }
    if (!has_paused_->wait_until(deadline)) return false;
  }
}

// --- the task ------------------------------------------------------------------------------------

void Averaging::serve(const StopToken& stop) {
  while (!stop.stop_requested()) {
    while (const auto operation = next_turn()) end_turn(run(*communicator_, *operation));
    may_go_on_->wait_until(kNoDeadline);
    may_go_on_->reset();
  }
}

std::optional<size_t> Averaging::next_turn() {
  MutexLock lock(mutex_);
  if (done_ >= allowed_ || !failed_.ok()) return std::nullopt;
  is_in_turn_ = true;
  return done_;
}

void Averaging::end_turn(Status outcome) {
  {
    MutexLock lock(mutex_);
    is_in_turn_ = false;
    if (outcome.ok()) ++done_;
    failed_ = std::move(outcome);
  }
  has_paused_->set();
}

// --- operations ----------------------------------------------------------------------------------

Status Averaging::gather(Communicator& communicator, std::span<std::byte> message,
                         uint64_t samples) {
  message_ = message;
  // Clears the gradients before any wait, since other members may have samples.
  if (samples == 0 && communicator.world().size() > 1) {
    for (const auto bucket : buckets_) {
      Buffer joined;
      FFDL_RETURN_IF_ERROR(scale(seams_.gpu, join_neighbours(bucket, joined), 0));
    }
    gives_zeros_ = true;
  }
  return run_until(1, communicator);
}

Status Averaging::average(Communicator& communicator) {
  FFDL_RETURN_IF_ERROR(run_until(1 + buckets_.size(), communicator));
  return seams_.standing();
}

Status Averaging::run_until(size_t end, Communicator& communicator) {
  while (true) {
    size_t operation = 0;
    {
      MutexLock lock(mutex_);
      if (!failed_.ok()) return failed_;
      if (done_ >= end) return {};
      operation = done_;
    }
    end_turn(run(communicator, operation));
  }
}

Status Averaging::run(Communicator& communicator, size_t operation) {
  FFDL_RETURN_IF_ERROR(seams_.standing());
  FFDL_CHECK(operation <= buckets_.size(), "a step has its messages and its buckets");
  if (operation > 0) return average_one(communicator, buckets_[operation - 1]);
  const auto all = messages_.receive(communicator.world().size());
  return communicator.all_gather(as_bytes(message_.data(), message_.size()),
                                 as_bytes(all.data(), all.size()), seams_.deadline());
}

Status Averaging::average_one(Communicator& communicator, std::span<const Buffer> bucket) {
  FFDL_CHECK(messages_.ranks() == communicator.world().size(),
             "gradients are averaged among those whose records arrived");
  const uint64_t sum = messages_.samples();
  if (sum == 0) return {};
  const bool are_equal = messages_.are_samples_equal();
  {
    MutexLock lock(mutex_);
    is_intact_ = false;
  }
  Buffer joined;
  const std::span<const Buffer> buffers = join_neighbours(bucket, joined);
  const uint64_t mine = messages_.header(communicator.world().rank).samples;
  // Skips a factor of 1, which one member alone with samples has. It would be a useless pass over
  // all gradients.
  if (!are_equal && !gives_zeros_ && mine != sum) {
    const double share = static_cast<double>(mine) / static_cast<double>(sum);
    FFDL_RETURN_IF_ERROR(scale(seams_.gpu, buffers, share));
  }
  return communicator.all_reduce(buffers, are_equal ? ReduceOp::kMean : ReduceOp::kSum,
                                 seams_.deadline());
}

size_t Averaging::operations_done() const {
  MutexLock lock(mutex_);
  return done_;
}

size_t Averaging::buckets_averaged() const {
  const size_t done = operations_done();
  return done == 0 ? 0 : done - 1;
}

bool Averaging::is_intact() const {
  MutexLock lock(mutex_);
  return is_intact_;
}

void Averaging::drop() {
  communicator_.reset();
  noted_end_ = 0;
  noted_samples_.reset();
  gives_zeros_ = false;
  MutexLock lock(mutex_);
  done_ = 0;
  allowed_ = 0;
  is_intact_ = true;
  failed_ = {};
}

}  // namespace ffdl::elastic
