#include "comm/shm/meeting.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/limits.h"
#include "ffdl/runtime.h"
#include "shm/segment_place.h"

namespace ffdl::comm {

using base::make_error;

namespace {

constexpr std::string_view kLeft = "failed or left";

}  // namespace

ShmMeeting::ShmMeeting(const World& world, std::shared_ptr<shm::Segment> segment,
                       const ShmConfig& config, shm::RoleLock lock)
    : world_(world),
      segment_(std::move(segment)),
      view_(segment_->data(), config),
      lock_(std::move(lock)),
      mine_(view_.words(world.rank)) {}

ShmMeeting::~ShmMeeting() { stop(); }

Result<std::unique_ptr<ShmMeeting>> ShmMeeting::join(const World& world, Store& store,
                                                     Time deadline,
                                                     const CommunicatorOptions& options, Way way) {
  const bool creates = world.rank == 0;
  FFDL_ASSIGN_OR_RETURN(
      std::unique_ptr<ShmMeeting> meeting,
      creates ? make(world, store, options, way) : find(world, store, deadline, way));
  meeting->look_ = options.interrupt_check;
  const Status joined = meeting->wait_for_members(deadline);
  // All ranks have it open now, or the world will not form. So the name is no longer needed.
  meeting->segment_->unlink();
  const Status removed = creates ? store.remove(meeting_key(world)) : Status();
  FFDL_RETURN_IF_ERROR(joined);
  FFDL_RETURN_IF_ERROR(removed);
  return meeting;
}

Result<std::unique_ptr<ShmMeeting>> ShmMeeting::make(const World& world, Store& store,
                                                     const CommunicatorOptions& options, Way way) {
  const ShmConfig config = {.generation = world.generation,
                            .job = job_hash(world),
                            .members = world_hash(world),
                            .slot_bytes = options.slot_bytes,
                            .ranks = static_cast<uint32_t>(world.members.size()),
                            .reserved = 0};
  const std::string name = way == Way::kName ? fmt::format("comm-{}-{:016x}", world.generation,
                                                           system_runtime().random())
                                             : std::string();
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        shm::Segment::create({.name = name,
                                              .kind = shm::SegmentKind::kCommunicator,
                                              .layout_version = kLayoutVersion,
                                              .bytes = segment_bytes(config)}));
  std::memcpy(segment.data() + kConfigAt, &config, sizeof config);
  FFDL_ASSIGN_OR_RETURN(shm::RoleLock lock,
                        shm::RoleLock::acquire(segment.fd(), shm::learner_role(world.rank)));
  FFDL_RETURN_IF_ERROR(segment.publish());
  auto meeting = std::make_unique<ShmMeeting>(
      world, std::make_shared<shm::Segment>(std::move(segment)), config, std::move(lock));
  const std::string where = way == Way::kName ? name : to_text(place_of(*meeting->segment_));
  const Result<Revision> told = store.compare_and_put(meeting_key(world), 0, where);
  if (told.ok()) return meeting;
  meeting->segment_->unlink();
  if (told.status().code() != StatusCode::kConflict) return told.status();
  return make_error(StatusCode::kWorldChanged,
                    "connect {}: another process has begun it as rank 0; a member that returns "
                    "needs a new incarnation, and a new generation",
                    name_of(world));
}

// Waits while the store has the place of an earlier meeting of this world. Rank 0 will remove that.
Result<std::unique_ptr<ShmMeeting>> ShmMeeting::find(const World& world, Store& store,
                                                     Time deadline, Way way) {
  const std::string key = meeting_key(world);
  FFDL_ASSIGN_OR_RETURN(Revision seen, store.wait_change(key, 0, deadline));
  while (true) {
    const Result<Entry> told = store.get(key);
    Status status = told.status();
    if (told.ok()) {
      Result<shm::Segment> segment = open(world, store, *told, way);
      auto meeting = segment.ok() ? enter(world, std::move(*segment)) : std::move(segment).status();
      if (meeting.ok()) return meeting;
      status = std::move(meeting).status();
    }
    if (status.code() != StatusCode::kNotFound) return status;
    Result<Revision> changed = store.wait_change(key, seen, deadline);
    if (!changed.ok()) {
      return std::move(changed).status().with_context(
          fmt::format("connect generation {} as rank {}: rank 0 '{}' has made no shared memory",
                      world.generation, world.rank, world.members.front().id));
    }
    seen = *changed;
  }
}

// Relies on rank 0, if it lives, to remove the place from the store before it closes the segment.
Result<shm::Segment> ShmMeeting::open(const World& world, Store& store, const Entry& told,
                                      Way way) {
  constexpr auto kKind = shm::SegmentKind::kCommunicator;
  if (way == Way::kName) return shm::Segment::open(told.value, kKind, kLayoutVersion);
  Result<shm::Segment> segment =
      open_segment(shm::segment_place_of(told.value), kKind, kLayoutVersion);
  if (segment.ok()) return segment;
  FFDL_ASSIGN_OR_RETURN(const Entry now, store.get(told.key));
  if (now.revision != told.revision) return Status(StatusCode::kNotFound, "the record changed");
  return make_error(StatusCode::kPeerLost,
                    "connect generation {} as rank {}: rank 0 '{}' has died, or this process may "
                    "not open its memory: {}; form a new world",
                    world.generation, world.rank, world.members.front().id,
                    segment.status().message());
}

Result<std::unique_ptr<ShmMeeting>> ShmMeeting::enter(const World& world, shm::Segment segment) {
  FFDL_ASSIGN_OR_RETURN(const ShmConfig config, read_config(segment, world));
  const ShmView view(segment.data(), config);
  const auto has_joined = [&](int rank) {
    return view.words(rank).joined.load(std::memory_order_seq_cst) != 0;
  };
  int joined = 0;
  for (int rank = 0; rank < view.ranks(); ++rank) joined += has_joined(rank) ? 1 : 0;
  if (joined == view.ranks()) {
    return make_error(StatusCode::kNotFound, "connect generation {}: all have met",
                      world.generation);
  }
  Result<shm::RoleLock> lock = shm::RoleLock::acquire(segment.fd(), shm::learner_role(world.rank));
  if (!lock.ok()) {
    return std::move(lock).status().with_context(
        fmt::format("connect generation {} as rank {}", world.generation, world.rank));
  }
  // A new rank's words would be untouched: the others may rely on what the previous process did.
  if (has_joined(world.rank)) {
    return make_error(StatusCode::kConflict,
                      "connect generation {} as rank {}: another process joined as this rank, and "
                      "is gone; form a new world, with a new incarnation of '{}'",
                      world.generation, world.rank,
                      world.members[static_cast<size_t>(world.rank)].id);
  }
  return std::make_unique<ShmMeeting>(world, std::make_shared<shm::Segment>(std::move(segment)),
                                      config, std::move(*lock));
}

Status ShmMeeting::check_member(std::string_view doing) const {
  if (lock_.held()) return {};
  return make_error(StatusCode::kCancelled,
                    "{} at rank {}: this process is a fork of the member; connect in the child",
                    doing, world_.rank);
}

// Reads `done` again after `failed`: a rank that failed may have been done before.
template <class Done>
ShmMeeting::Progress ShmMeeting::progress(Done&& done) const {
  Progress seen = Progress::kAllDone;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const RankWords& words = view_.words(rank);
    if (done(words)) continue;
    const bool failed = words.failed.load(std::memory_order_seq_cst) != 0;
    if (failed && !done(words)) return Progress::kHopeless;
    if (!failed) seen = Progress::kWaiting;
  }
  return seen;
}

// Returns a death first, as it causes the other failures. A rank that leaves sets `failed` before
// it drops its lock. `done` is read again last.
template <class Done>
std::optional<ShmMeeting::Loss> ShmMeeting::find_loss(Done&& done, Absence absence) const {
  std::optional<Loss> loss;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const RankWords& words = view_.words(rank);
    if (done(words)) continue;
    const bool absent =
        absence == Absence::kLost && !shm::role_is_held(segment_->fd(), shm::learner_role(rank));
    const bool failed = words.failed.load(std::memory_order_seq_cst) != 0;
    if (done(words)) continue;
    if (absent && !failed) return Loss{rank, "has died"};
    if (failed && !loss) loss = Loss{rank, kLeft};
  }
  return loss;
}

Status ShmMeeting::lost(std::string_view doing, const Loss& loss) const {
  return make_error(StatusCode::kPeerLost, "{} at rank {}: rank {} '{}' {}; form a new world",
                    doing, world_.rank, loss.rank, id_of(loss.rank), loss.how);
}

template <class Done>
Status ShmMeeting::wait_for_all(std::string_view doing, shm::Doorbell& bell, Done&& done,
                                Absence absence, Time deadline) {
  const auto stopped = [&] { return stopped_.load(std::memory_order_seq_cst); };
  // The last rank to arrive needs no clock.
  if (progress(done) == Progress::kAllDone && !stopped()) return {};
  while (true) {
    const Time now = std::chrono::steady_clock::now();
    const Time look = std::min<Time>(deadline, now + base::kLivenessInterval);
    bell.wait_until([&] { return progress(done) != Progress::kWaiting || stopped(); }, look);
    if (stopped()) return make_error(StatusCode::kCancelled, "{}: stopped", doing);
    if (progress(done) == Progress::kAllDone) return {};
    if (const std::optional<Loss> loss = find_loss(done, absence)) {
      return lost(doing, *loss);
    }
    if (look_ && now >= next_look_) {
      next_look_ = now + base::kLookInterval;
      FFDL_RETURN_IF_ERROR(look_());
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      int late = 0;
      while (late + 1 < view_.ranks() && done(view_.words(late))) ++late;
      return make_error(StatusCode::kTimeout,
                        "{} at rank {}: rank {} '{}' had not arrived by the deadline; wait longer, "
                        "or find out what it does",
                        doing, world_.rank, late, id_of(late));
    }
  }
}

Status ShmMeeting::wait_for_members(Time deadline) {
  mine_.pid.store(getpid(), std::memory_order_relaxed);
  mine_.fd.store(segment_->fd(), std::memory_order_relaxed);
  mine_.joined.store(1, std::memory_order_seq_cst);  // pairs with the loads in has_joined
  view_.bell().ring();
  const auto has_joined = [](const RankWords& words) {
    return words.joined.load(std::memory_order_seq_cst) != 0;
  };
  FFDL_RETURN_IF_ERROR(wait_for_all(fmt::format("connect generation {}", world_.generation),
                                    view_.bell(), has_joined, Absence::kNotYetHere, deadline));
  reaches_all_ = true;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    reaches_all_ = reaches_all_ && can_reach(view_.words(rank));
  }
  return {};
}

// Returns whether that rank's descriptor of this segment opens this segment here. This requires
// that the pid names the same process, and that the kernel permits the access. Neither holds across
// pid namespaces and users.
bool ShmMeeting::can_reach(const RankWords& words) const {
  const std::string path = fmt::format("/proc/{}/fd/{}", words.pid.load(), words.fd.load());
  struct stat theirs = {};
  struct stat ours = {};
  return stat(path.c_str(), &theirs) == 0 && fstat(segment_->fd(), &ours) == 0 &&
         theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

Status ShmMeeting::check_ranks() const {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    if (view_.words(rank).failed.load(std::memory_order_seq_cst) == 0) continue;
    if (rank == world_.rank) return make_error(StatusCode::kCancelled, "{}: stopped", kOperate);
    return lost(kOperate, {rank, kLeft});
  }
  return {};
}

Status ShmMeeting::check_lives() const {
  FFDL_RETURN_IF_ERROR(check_ranks());
  const std::optional<Loss> loss =
      find_loss([](const RankWords&) { return false; }, Absence::kLost);
  return loss ? lost(kOperate, *loss) : Status();
}

// Waits a little: death is not atomic, as a dying process closes its descriptors one after the
// other.
Status ShmMeeting::blame(const Status& otherwise) {
  std::optional<Loss> loss;
  view_.bell().wait_until(
      [&] {
        loss = find_loss([](const RankWords&) { return false; }, Absence::kLost);
        return loss.has_value();
      },
      deadline_in(2 * base::kLivenessInterval));
  return loss ? lost(kOperate, *loss) : otherwise;
}

bool ShmMeeting::somebody_touches() const {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    if (rank == world_.rank || view_.words(rank).touching.load(std::memory_order_seq_cst) == 0) {
      continue;
    }
    if (shm::role_is_held(segment_->fd(), shm::learner_role(rank))) return true;
  }
  return false;
}

bool ShmMeeting::wait_until_untouched(Duration patience) {
  return view_.bell().wait_until([this] { return !somebody_touches(); }, deadline_in(patience));
}

// Stores with sequential consistency, as do the load of `failed` in check_ranks(), a failing rank's
// store to `failed`, and the load in somebody_touches(). So one of the two ranks sees the other.
void ShmMeeting::set_touching(bool touching) {
  mine_.touching.store(touching ? 1 : 0, std::memory_order_seq_cst);
}

Status ShmMeeting::end_step(Time deadline) {
  const uint64_t step = ++step_;
  const auto has_arrived = [step](const RankWords& words) {
    return words.arrived.load(std::memory_order_seq_cst) >= step;
  };
  mine_.arrived.store(step, std::memory_order_seq_cst);  // pairs with the loads in has_arrived
  // If several ranks arrive last at the same time, at least one sees all.
  if (progress(has_arrived) == Progress::kAllDone) view_.bell().ring();
  return wait_for_all(kOperate, view_.bell(), has_arrived, Absence::kLost, deadline);
}

Status ShmMeeting::wait_for_rank(int rank, shm::Doorbell& bell, const std::function<bool()>& ready,
                                 Time deadline) {
  const RankWords* const theirs = &view_.words(rank);
  const auto done = [&](const RankWords& words) { return &words != theirs || ready(); };
  return wait_for_all(kOperate, bell, done, Absence::kLost, deadline);
}

void ShmMeeting::stop() {
  stopped_.store(true, std::memory_order_seq_cst);
  if (!lock_.held()) return;                         // a fork: the words are the member's
  mine_.failed.store(1, std::memory_order_seq_cst);  // pairs with the loads in wait_for_all()
  view_.bell().ring();
  for (int rank = 0; rank < view_.ranks(); ++rank) view_.mailbox(rank).bell.ring();
}

}  // namespace ffdl::comm
