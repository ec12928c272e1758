#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/session.h"
#include "ffdl/step_participant.h"

namespace ffdl::testing {

// Returns leases that a busy machine keeps alive. A death is noticed only at their end.
inline MembershipOptions patient(int min_workers) {
  MembershipOptions options;
  options.min_workers = min_workers;
  options.heartbeat = std::chrono::milliseconds(50);
  options.lease = std::chrono::seconds(15);
  options.gather = std::chrono::milliseconds(50);
  return options;
}

// A model of weights with momentum, in two tensors of odd sizes. Each gradient depends on its
// samples. The gradients are in shared memory, for sessions with SessionOptions::shared_memory.
class SmallModel : public Trainable {
 public:
  explicit SmallModel(size_t size = 1001, float start = 1)
      : start_(start),
        weights_(size, start),
        momentum_(size),
        memory_(SharedMemory::allocate(size * sizeof(float)).value()),
        gradient_(reinterpret_cast<float*>(memory_->data()), size) {}

  std::vector<Buffer> state() override {
    return {{weights_.data(), weights_.size()}, {momentum_.data(), momentum_.size()}};
  }
  std::vector<Buffer> gradients() override {
    const size_t half = gradient_.size() / 2;
    return {{gradient_.data(), half}, {gradient_.data() + half, gradient_.size() - half}};
  }
  void apply() override {
    for (size_t i = 0; i < weights_.size(); ++i) {
      momentum_[i] = 0.9F * momentum_[i] + gradient_[i];
      weights_[i] -= 0.01F * momentum_[i];
    }
  }
  void on_world(const World& world) override { worlds.push_back(world); }
  Status begin_anew() override {
    weights_.assign(weights_.size(), start_);
    momentum_.assign(momentum_.size(), 0);
    return {};
  }

  // Computes the mean over samples of one position.
  void compute(uint64_t position) {
    compute_half(position, 0);
    compute_half(position, 1);
  }
  // Computes one of gradients().
  void compute_half(uint64_t position, size_t which) {
    const size_t half = gradient_.size() / 2;
    for (size_t i = which * half; i < (which == 0 ? half : gradient_.size()); ++i) {
      gradient_[i] = weights_[i] * static_cast<float>((position * 7 + i) % 13) / 13;
    }
  }
  const std::vector<float>& weights() const { return weights_; }
  std::span<const float> gradient() const { return gradient_; }
  std::vector<std::shared_ptr<SharedMemory>> shared_memory() const { return {memory_}; }

  std::vector<World> worlds;

 private:
  const float start_;
  std::vector<float> weights_;
  std::vector<float> momentum_;
  const std::shared_ptr<SharedMemory> memory_;
  const std::span<float> gradient_;
};

// Records what it receives.
class Scribe final : public StepParticipant {
 public:
  explicit Scribe(uint64_t says) : says_(says) {}

  size_t record_bytes() const override { return sizeof says_; }
  void write_record(std::span<std::byte> record) override {
    std::memcpy(record.data(), &says_, sizeof says_);
  }
  void applied(uint64_t step, const StepRecords& records) override {
    last_applied = step;
    for (int rank = 0; rank < records.size(); ++rank) {
      uint64_t said = 0;
      std::memcpy(&said, records.of(rank).data(), sizeof said);
      sum_ = sum_ * 31 + said;
    }
  }
  void world_changed(const World& world) override { sum_ = sum_ * 31 + world.generation; }
  void stable(uint64_t step) override { last_stable = step; }
  std::vector<std::byte> save() const override {
    std::vector<std::byte> bytes(sizeof sum_);
    std::memcpy(bytes.data(), &sum_, sizeof sum_);
    return bytes;
  }
  Status restore(std::span<const std::byte> bytes) override {
    if (bytes.size() != sizeof sum_) return Status(StatusCode::kCorrupt, "not a scribe's");
    std::memcpy(&sum_, bytes.data(), sizeof sum_);
    return {};
  }
  uint64_t sum() const { return sum_; }

  uint64_t last_applied = 0;
  uint64_t last_stable = 0;

 private:
  const uint64_t says_;
  uint64_t sum_ = 0;
};

// Counts steps from the first one that `members` members did together. A world of so many is not
// enough: while it begins, one member may be alone with the state.
class StepsTogether {
 public:
  explicit StepsTogether(int members) : members_(members) {}

  // Is for any thread. `result` is what end_step() returned.
  uint64_t since(const Session& session, StepResult result) {
    const uint64_t step = session.step();
    if (session.world().size() == members_ && result == StepResult::kContinue) {
      uint64_t none = 0;
      first_.compare_exchange_strong(none, step);
    }
    const uint64_t first = first_;
    return first == 0 || step < first ? 0 : step - first;
  }

 private:
  const int members_;
  std::atomic<uint64_t> first_ = 0;  // none yet
};

}  // namespace ffdl::testing
