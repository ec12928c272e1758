#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ffdl/ps/learner.h"
#include "ps/learner/device_transfer.h"
#include "ps/learner/pending_gradient.h"
#include "ps/learner/sparse_stage.h"
#include "ps/learner/started_push.h"
#include "ps/segment/last_record.h"
#include "ps/segment/layout.h"
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

// Implements the learner's side of the slot protocol. docs/internals/protocol-ps.md names the
// steps.
class Learner::Impl {
 public:
  Impl(std::shared_ptr<const shm::Segment> segment, ps::Region region, shm::RoleLock lock,
       int slot);
  ~Impl();

  // Finds a slot whose last owner has ended, takes its lock and attaches. With a device `segment`
  // is mapped for this learner alone. `side` has the device; null: the GPUs of this machine.
  static Result<std::unique_ptr<Learner>> attach(std::shared_ptr<const shm::Segment> segment,
                                                 Time deadline, const LearnerOptions& options,
                                                 std::unique_ptr<base::DeviceSide> side = nullptr);

  Status begin_mini_batch(Time deadline);
  Result<std::span<float>> gradient_slot(Time deadline);
  // `version`: the version of the weights from which the gradient was computed.
  Result<PushResult> push(const Gradient& gradient, std::span<const SampleRange> samples,
                          uint64_t version);
  Result<uint64_t> pull(std::span<float> weights, PullMode mode) const;
  Result<uint64_t> pull_rows(std::span<const RowWeights> tables) const;
  Status start_push(const Gradient& gradient, std::span<const SampleRange> samples,
                    base::DeviceStream stream);
  Result<PushResult> finish_push(Time deadline);
  Status start_pull(std::span<float> weights, PullMode mode, base::DeviceStream stream);
  Status start_pull_rows(std::span<const RowWeights> tables, base::DeviceStream stream);
  Result<uint64_t> finish_pull(Time deadline);
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
  // Sets the version of the weights from which the next gradients are computed.
  void set_base_version(uint64_t version) { base_version_ = version; }
  uint64_t base_version() const { return base_version_; }
  bool pushing_beside() const;
  // Returns why memory could not be pinned; empty without a device.
  const std::string& not_pinned() const;
  // Refuses ranges without any sample: no record could name the samples of such a gradient.
  static Status check_names_samples(std::span<const SampleRange> samples);

 private:
  static Result<std::unique_ptr<Impl>> attach_slot(std::shared_ptr<const shm::Segment> segment,
                                                   Time deadline, int wanted_slot);
  Status check_dense(const Gradient& gradient) const;
  Status check_landing(const Gradient& gradient) const;
  Status check_stream(base::DeviceStream stream, std::string_view doing) const;
  Result<ps::Transfer*> transfer();
  Result<PushResult> push_slot(std::span<const SampleRange> samples, uint64_t version);
  Result<PushResult> push_dense(const Gradient& gradient, std::span<const SampleRange> samples,
                                uint64_t version);
  Result<PushResult> push_sparse(const Gradient& gradient, std::span<const SampleRange> samples,
                                 uint64_t version);
  uint64_t waits_to_be_folded(int l, uint32_t partition) const;
  bool others_wait_to_be_folded(uint32_t partition) const;
  std::optional<ps::LastRecord> last_record(int l) const;
  Status check_records(std::string_view doing) const;
  Status check_usable(std::string_view doing) const;
  // Not called while a thread of this learner may use the caller's arrays.
  Status check_launcher() const;
  Status check_samples(std::span<const SampleRange> samples) const;
  void note_positions(std::span<const SampleRange> samples);
  // Returns the end of the launcher instead, if the server may have ended with it.
  Status server_is_gone(std::string_view doing) const;
  Status check_room(const ps::IncomingGradient& incoming, double largest) const;
  struct Verdict {
    bool skip = false;
    float clip_scale = 1;
    float largest = 0;  // magnitude, if needed
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
  Status check_owns_slot() const;
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

  const std::shared_ptr<const shm::Segment> segment_;  // shared with a server of this process
  const ps::Region region_;
  const ps::Config& config_;
  shm::RoleLock lock_;
  const int l_;
  const uint64_t owner_;  // this learner's number as the owner of its slot
  ps::LearnerWords& words_;
  ps::PendingGradient pending_;
  uint64_t clock_ = 0;  // mini-batches pushed, on the scale of all learners
  uint64_t base_version_ = 0;
  ps::AlignedFloats staging_;  // a mini-batch that cannot be written to its place at once
  ps::SparseStage sparse_;
  float* given_ = nullptr;                      // returned by gradient_slot() and not yet pushed
  std::map<uint32_t, uint64_t> next_position_;  // per partition, of this learner's pushes
  std::set<uint32_t> left_;  // partitions to be released with the next publication
  std::function<void(const Publication&)> told_;
  LearnerStats stats_;
  mutable std::vector<std::atomic<uint64_t>> whole_records_;  // by slot, the last sequence found so
  mutable std::atomic<int> damaged_slot_ = -1;  // whose record was found damaged; -1: none
  ps::StartedPush started_;
  std::vector<RowWeights> started_rows_;  // of a start_pull_rows(), with own row numbers
  std::vector<uint64_t> started_row_numbers_;
  std::unique_ptr<ps::DeviceTransfer> device_;  // null: the host's memory
  std::unique_ptr<ps::Transfer> transfer_;      // last: its threads end first
};

}  // namespace ffdl
