#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/shm/layout.h"
#include "ffdl/comm/communicator.h"
#include "shm/liveness.h"

namespace ffdl::comm {

// One rank's place in the shared memory of its world. Here ranks find each other, go from step to
// step, and learn of a failure. It does not know what a step does.
// Threads: stop() from any thread; the rest from one thread at a time.
// Owns: the mapping, and the lock that proves this rank's life until it is destroyed.
class ShmMeeting {
 public:
  // The way to the segment of rank 0. It is a descriptor of that process, or a name in /dev/shm for
  // processes that cannot open the descriptor. The name is removed when all have joined. It stays
  // if rank 0 is killed before it has published the name, or if all ranks are killed.
  enum class Way { kProcess, kName };

  // Creates the segment at rank 0, and finds it through the store at the others. Returns when all
  // have joined. All pass the same `way`. Errors: those of connect_communicator.
  static Result<std::unique_ptr<ShmMeeting>> join(const World& world, Store& store, Time deadline,
                                                  const CommunicatorOptions& options, Way way);
  // Finishes join(): `lock` is that of the rank in `segment`. The segment is shared, as ranks that
  // are threads of one process may use one mapping. ThreadSanitizer then sees their accesses to it.
  ShmMeeting(const World& world, std::shared_ptr<shm::Segment> segment, const ShmConfig& config,
             shm::RoleLock lock);
  ~ShmMeeting();
  ShmMeeting(const ShmMeeting&) = delete;
  ShmMeeting& operator=(const ShmMeeting&) = delete;

  const ShmView& view() const { return view_; }
  // Returns the number of completed steps, which is the number of the current step.
  uint64_t step() const { return step_; }

  // Checks that this process is the member. A fork inherits the object, but not the membership: it
  // must not touch a word. Errors: kCancelled.
  Status check_member(std::string_view doing) const;

  // Ends this rank's part of the step and waits until all have ended theirs. Their writes before
  // that can be read afterwards. Errors: kTimeout, kPeerLost, kCancelled (stop()).
  Status end_step(Time deadline);

  // Waits until `ready()`. `rank` alone makes it true, and then rings `bell`, a bell of the
  // segment. Independent of steps. Errors: those of end_step.
  Status wait_for_rank(int rank, shm::Doorbell& bell, const std::function<bool()>& ready,
                       Time deadline);

  // Announces that this rank will end no other step. Every rank that waits for it learns so.
  void stop();

  // Returns whether this process can open the descriptors of all other ranks.
  bool reaches_all() const { return reaches_all_; }
  // Checks that no rank has failed so far. Errors: kPeerLost, kCancelled (stop()).
  Status check_ranks() const;
  // Checks that no rank has failed or died. Asks the kernel about each rank. Errors: as
  // check_ranks().
  Status check_lives() const;
  // Returns the cause of an error in access to another rank's memory. This is the end of a rank, if
  // one has ended or is found to within a moment. Else it is `otherwise`.
  Status blame(const Status& otherwise);
  // Waits until no other live rank may touch this rank's memory. Returns false after `patience`.
  bool wait_until_untouched(Duration patience);
  // Publishes whether this rank may touch the memory of others. It is set before the step that
  // announces the operation, and cleared before the step that ends it.
  void set_touching(bool touching);

 private:
  // The meaning of a rank's lock that no process holds.
  enum class Absence { kNotYetHere, kLost };
  // kHopeless: a rank that is not done has announced that it never will be.
  enum class Progress { kAllDone, kWaiting, kHopeless };
  struct Loss {
    int rank;
    std::string_view how;
  };

  static Result<std::unique_ptr<ShmMeeting>> make(const World& world, Store& store,
                                                  const CommunicatorOptions& options, Way way);
  static Result<std::unique_ptr<ShmMeeting>> find(const World& world, Store& store, Time deadline,
                                                  Way way);
  // Opens the segment at the place that rank 0 published. Errors: kNotFound (it is that of an
  // earlier meeting), kPeerLost (rank 0 has it no more).
  static Result<shm::Segment> open(const World& world, Store& store, const Entry& told, Way way);
  // Errors: kNotFound (an earlier meeting), kConflict (another process is or was this rank).
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
  // Returns a rank that is not done and will never be.
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
