#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/shm_layout.h"
#include "ffdl/communicator.h"
#include "shm/liveness.h"

namespace ffdl::comm {

// One rank's place in the shared memory of its world: how ranks find each other, go from step to
// step, and learn of a failure. It knows nothing of what a step does.
// Threads: stop() from any thread; the rest from one thread at a time.
// Owns: the mapping, and the lock that proves this rank's life until it is destroyed.
class ShmMeeting {
 public:
  // How the others find the segment of rank 0: as what that process has open, or, where they cannot
  // open that, by a name in /dev/shm. The name is gone when all have joined; but it stays if rank 0
  // is killed before it has told anybody, or all are.
  enum class Way { kProcess, kName };

  // Rank 0 makes the segment, the others find it through the store. Returns when all have joined.
  // All say the same `way`. Errors: those of connect_communicator.
  static Result<std::unique_ptr<ShmMeeting>> join(const World& world, Store& store, Time deadline,
                                                  const CommunicatorOptions& options, Way way);
  // What join() does in the end: `lock` is that of the rank in `segment`. Shared, as ranks that are
  // threads of one process may use one mapping; ThreadSanitizer then sees what they do to it.
  ShmMeeting(const World& world, std::shared_ptr<shm::Segment> segment, const ShmConfig& config,
             shm::RoleLock lock);
  ~ShmMeeting();
  ShmMeeting(const ShmMeeting&) = delete;
  ShmMeeting& operator=(const ShmMeeting&) = delete;

  const ShmView& view() const { return view_; }
  // Steps that are over: the number of the one that this rank is in.
  uint64_t step() const { return step_; }

  // A fork of the member inherits the object, but not the membership: it must not touch a word.
  // Errors: kCancelled.
  Status check_member(std::string_view doing) const;

  // Ends this rank's part of the step and waits until all have ended theirs: what they wrote before
  // can be read then. Errors: kTimeout, kPeerLost, kCancelled (stop()).
  Status end_step(Time deadline);

  // Waits until `ready()`, which `rank` alone makes true before it rings `bell`, one of the
  // segment's. Has nothing to do with steps. Errors: those of end_step.
  Status wait_for_rank(int rank, shm::Doorbell& bell, const std::function<bool()>& ready,
                       Time deadline);

  // This rank will end no other step; whoever waits for it learns so.
  void stop();

  // Whether this process can open what any of the others has open.
  bool reaches_all() const { return reaches_all_; }
  // No rank has failed, as of now. Errors: kPeerLost, kCancelled (stop()).
  Status check_ranks() const;
  // The same, and no rank has died. Asks the kernel about each of them. Errors: as check_ranks().
  Status check_lives() const;
  // What went wrong where ranks touch each other's memory: the end of one of them, if one has ended
  // or is found to within a moment; `otherwise` if not.
  Status blame(const Status& otherwise);
  // Waits until no other rank that lives may touch our memory; false when that took longer.
  bool wait_until_untouched(Duration patience);
  // Says whether this rank may touch the memory of others. Said before the step in which the others
  // learn what it runs, and taken back before the step that ends the operation.
  void set_touching(bool touching);

 private:
  // What it means that nobody holds a rank's lock.
  enum class Absence { kNotYetHere, kLost };
  // Hopeless: somebody who is not done has said that it will not be.
  enum class Progress { kAllDone, kWaiting, kHopeless };
  struct Loss {
    int rank;
    std::string_view how;
  };

  static Result<std::unique_ptr<ShmMeeting>> make(const World& world, Store& store,
                                                  const CommunicatorOptions& options, Way way);
  static Result<std::unique_ptr<ShmMeeting>> find(const World& world, Store& store, Time deadline,
                                                  Way way);
  // Where rank 0 has told it to be. Errors: kNotFound (it is that of an earlier meeting), kPeerLost
  // (rank 0 has it no more).
  static Result<shm::Segment> open(const World& world, Store& store, const Entry& told, Way way);
  // Errors: kNotFound (an earlier meeting), kConflict (somebody is this rank, or has been).
  static Result<std::unique_ptr<ShmMeeting>> enter(const World& world, shm::Segment segment);
  Status wait_for_members(Time deadline);
  bool can_reach(const RankWords& words) const;
  bool somebody_touches() const;

  // Waits at `bell` until `done(words)` holds for every rank. `doing` begins the message of a
  // failure.
  template <class Done>
  Status wait_for_all(std::string_view doing, shm::Doorbell& bell, Done&& done, Absence absence,
                      Time deadline);
  template <class Done>
  Progress progress(Done&& done) const;
  // A rank that is not done and will never be.
  template <class Done>
  std::optional<Loss> find_loss(Done&& done, Absence absence) const;
  Status lost(std::string_view doing, const Loss& loss) const;
  const std::string& id_of(int rank) const { return world_.members[static_cast<size_t>(rank)].id; }

  const World world_;
  const std::shared_ptr<shm::Segment> segment_;
  const ShmView view_;
  shm::RoleLock lock_;
  RankWords& mine_;
  uint64_t step_ = 0;
  bool reaches_all_ = false;
  std::function<Status()> look_;
  Time next_look_{};
  std::atomic<bool> stopped_ = false;
};

}  // namespace ffdl::comm
