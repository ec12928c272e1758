#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "ffdl/learner.h"
#include "ps/layout.h"
#include "ps/pending_gradient.h"
#include "ps/sparse_stage.h"
#include "shm/liveness.h"
#include "shm/segment.h"

namespace ffdl {

namespace ps {

class Transfer;

struct FreeMemory {
  void operator()(float* memory) const { std::free(memory); }
};
using AlignedFloats = std::unique_ptr<float[], FreeMemory>;

}  // namespace ps

// The learner's side of the slot protocol. docs/protocol-ps.md names the steps.
class Learner::Impl {
 public:
  Impl(std::shared_ptr<const shm::Segment> segment, ps::Region region, shm::RoleLock lock,
       int slot);
  ~Impl();

  // Finds a slot whose last owner is gone, takes its lock and attaches.
  static Result<std::unique_ptr<Impl>> attach(std::shared_ptr<const shm::Segment> segment,
                                              Time deadline, const LearnerOptions& options);

  Status begin_mini_batch(Time deadline);
  Result<std::span<float>> gradient_slot(Time deadline);
  Result<PushResult> push_slot(std::span<const SampleRange> samples);
  // `version`: of the weights that the gradient was computed from.
  Result<PushResult> push(std::span<const float> gradient, std::span<const SampleRange> samples,
                          uint64_t version);
  Result<PushResult> push_sparse(const SparseGradient& gradient,
                                 std::span<const SampleRange> samples, uint64_t version);
  // `type`: kBFloat16 or kFloat16.
  Result<PushResult> push_halves(GradientType type, std::span<const uint16_t> gradient,
                                 std::span<const SampleRange> samples, uint64_t version);
  Result<uint64_t> pull(std::span<float> weights, PullMode mode);
  Result<uint64_t> pull_rows(uint64_t table, uint64_t row_size, std::span<const uint64_t> rows,
                             std::span<float> to) const;
  Status flush(Time deadline);
  Status detach(Time deadline);
  uint64_t committed(uint32_t partition) const;
  uint64_t pushed(uint32_t partition) const;
  uint64_t ranges_left() const { return config_.ranges_max - pending_.ranges.size(); }
  Result<bool> hold(uint32_t partition);
  Status let_go(uint32_t partition);
  bool is_free(uint32_t partition) const;
  std::vector<Publication> publications() const;
  void tell_publications(std::function<void(const Publication&)> told);
  Status rest_until(const std::function<bool()>& ready, Time deadline);

  int slot() const { return l_; }
  const ps::Region& region() const { return region_; }
  const LearnerStats& stats() const { return stats_; }
  // Weights of this version are what the next gradients are computed from.
  void set_base_version(uint64_t version) { base_version_ = version; }
  uint64_t base_version() const { return base_version_; }
  Result<ps::Transfer*> transfer();
  void end_transfer();  // when what is under way has ended
  bool pushing_beside() const;
  Status check_size(uint64_t elements) const;  // of a gradient

 private:
  uint64_t waits_to_be_folded(int l, uint32_t partition) const;
  bool others_wait_to_be_folded(uint32_t partition) const;
  Status check_usable(std::string_view doing) const;
  Status check_samples(std::span<const SampleRange> samples) const;
  void note_positions(std::span<const SampleRange> samples);
  Status server_is_gone(std::string_view doing) const;
  Status check_room(const ps::IncomingGradient& incoming, double largest) const;
  struct Verdict {
    bool skip = false;
    float clip_scale = 1;
    float largest = 0;  // magnitude, where it matters
  };
  Result<Verdict> judge(const ps::IncomingGradient& incoming,
                        std::span<const SampleRange> samples) const;
  Result<PushResult> take_dense(std::span<const float> gradient,
                                std::span<const SampleRange> samples, uint64_t version,
                                bool in_slot);
  Result<PushResult> take_gradient(ps::IncomingGradient incoming,
                                   std::span<const SampleRange> samples, uint64_t version);
  bool is_dense(std::span<const ps::TouchedRange> touched) const;
  Result<bool> publish_if_free();
  void write_meta(uint64_t sequence);
  bool other_buffer_is_free() const;
  bool within_staleness_bound() const;
  uint64_t slowest_clock() const;
  ps::GradientBuffer own_buffer() const;
  float* staging();
  void enter();
  void leave();
  void leave_bounds();
  void enter_bounds();
  void give_up_left();
  void wait_for_push_beside();

  const std::shared_ptr<const shm::Segment> segment_;  // with a server of this process
  const ps::Region region_;
  const ps::Config& config_;
  shm::RoleLock lock_;
  const int l_;
  ps::LearnerWords& words_;
  ps::PendingGradient pending_;
  uint64_t clock_ = 0;  // mini-batches pushed, on the scale of all learners
  uint64_t base_version_ = 0;
  ps::AlignedFloats staging_;  // a mini-batch that cannot be written where it belongs at once
  ps::SparseStage sparse_;
  float* given_ = nullptr;  // what gradient_slot() gave and push() has not yet taken back
  std::map<uint32_t, uint64_t> next_position_;  // per partition, of what this learner pushes
  std::set<uint32_t> left_;  // partitions to be given up with the next publication
  std::function<void(const Publication&)> told_;
  LearnerStats stats_;
  std::unique_ptr<ps::Transfer> transfer_;  // last: its thread ends first
};

}  // namespace ffdl
