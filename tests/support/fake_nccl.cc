#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/gpu/nccl/interface.h"
#include "support/fake_nccl_state.h"
#include "support/fake_nccl_sums.h"
#include "support/host_stream.h"

// Implements NCCL's functions for the threads of one process, in the host's memory. It checks
// nothing, as NCCL: ranks that run different operations, or never join, wait until they are
// aborted.

using ffdl::comm::nccl::Code;
using ffdl::comm::nccl::Config;
using ffdl::comm::nccl::MemoryStat;
using ffdl::comm::nccl::Op;
using ffdl::comm::nccl::Stream;
using ffdl::comm::nccl::Type;
using ffdl::comm::nccl::UniqueId;
using ffdl::testing::FakeNccl;
using ffdl::testing::HostStream;

// The namespace has a name because NCCL's own type, which has one, holds these types.
namespace ffdl::testing::fake_nccl {

// The state that the ranks of one communicator share.
struct Meeting {
  struct Step {
    int arrived = 0;
    int done = 0;
    std::vector<Bytes> given;
  };
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  int memory_calls = 0;                                         // calls of all ranks
  std::shared_ptr<Meeting> grown;                               // by the new id
  std::map<std::vector<int>, std::shared_ptr<Meeting>> shrunk;  // by the excluded ranks
  std::map<uint64_t, Step> steps;
  std::map<std::pair<int, int>, std::deque<Bytes>> messages;  // by sender and receiver
};

struct Rank {
  bool has_ended() const { return aborted || revoked; }

  std::shared_ptr<Meeting> meeting;
  int ranks = 0;
  int rank = 0;
  uint64_t step = 0;
  std::atomic<int> polls = 0;
  bool aborted = false;  // guarded by the meeting's mutex, as are the members up to `running`
  bool revoked = false;
  bool suspended = false;
  int memory_calls = 0;  // calls of this rank
  int running = 0;       // unfinished work of its streams
  // The former rank of a growing one. NCCL waits over its connections until all have joined.
  std::shared_ptr<Rank> grows_from;
  // The smaller rank, until all have joined; `shrunk` receives its handle.
  std::shared_ptr<Rank> shrinks_to;
  ffdl::comm::nccl::Comm* shrunk = nullptr;
};

}  // namespace ffdl::testing::fake_nccl

namespace {

using ffdl::testing::fake_nccl::Bytes;
using ffdl::testing::fake_nccl::Meeting;
using ffdl::testing::fake_nccl::Rank;
using ffdl::testing::fake_nccl::reduce_as;
using ffdl::testing::fake_nccl::reduce_halves;

FakeNccl state;

std::mutex meetings_mutex;
std::map<std::string, std::shared_ptr<Meeting>> meetings;

std::shared_ptr<Meeting> meeting_of(const UniqueId& id) {
  const std::lock_guard lock(meetings_mutex);
  auto& meeting = meetings[std::string(id.internal, sizeof id.internal)];
  if (meeting == nullptr) meeting = std::make_shared<Meeting>();
  return meeting;
}

// The operations of this thread's group.
thread_local int group_depth = 0;
thread_local std::vector<std::pair<HostStream*, std::function<void()>>> group;

}  // namespace

namespace ffdl::comm::nccl {
struct CommOfNccl {
  std::shared_ptr<ffdl::testing::fake_nccl::Rank>
      rank;  // its operations outlive the handle for a moment
};
}  // namespace ffdl::comm::nccl

namespace {

using ffdl::comm::nccl::Comm;
using ffdl::comm::nccl::CommOfNccl;

size_t size_of(Type type) {
  switch (type) {
    case Type::kInt8:
      return 1;
    case Type::kFloat16:
    case Type::kBFloat16:
      return 2;
    case Type::kInt32:
    case Type::kFloat32:
      return 4;
    case Type::kInt64:
    case Type::kFloat64:
      return 8;
  }
  return 0;
}

void* reached(const void* memory) {
  const auto reach = state.reach.load();
  return reach == nullptr ? const_cast<void*>(memory) : reach(memory);
}

Code answer(Rank& rank) {
  rank.polls = state.polls.load();
  return rank.polls > 0 ? Code::kInProgress : Code::kSuccess;
}

// Adds `work` to the stream, or to the group.
Code launch(const std::shared_ptr<Rank>& rank, Stream stream, std::function<void()> work) {
  {
    const std::lock_guard lock(rank->meeting->mutex);
    if (rank->revoked) return Code::kInvalidUsage;
    if (rank->suspended) ++state.misused;
    ++rank->running;
  }
  const auto counted = [rank, work = std::move(work)] {
    work();
    const std::lock_guard lock(rank->meeting->mutex);
    --rank->running;
    rank->meeting->changed.notify_all();
  };
  auto* const to = static_cast<HostStream*>(stream);
  if (group_depth > 0) {
    group.emplace_back(to, counted);
    return Code::kSuccess;
  }
  to->enqueue(counted);
  return answer(*rank);
}

// Collects the bytes of all ranks, and then calls `take` with them.
Code collective(Comm comm, const void* in, size_t bytes, Stream stream,
                std::function<void(const std::vector<Bytes>&)> take) {
  const std::shared_ptr<Rank> rank = comm->rank;
  const uint64_t number = rank->step++;
  return launch(rank, stream, [=] {
    Bytes given(bytes);
    if (in != nullptr) std::memcpy(given.data(), reached(in), bytes);
    Meeting& meeting = *rank->meeting;
    std::unique_lock lock(meeting.mutex);
    Meeting::Step& step = meeting.steps[number];
    step.given.resize(static_cast<size_t>(rank->ranks));
    step.given[static_cast<size_t>(rank->rank)] = std::move(given);
    if (!state.hangs) ++step.arrived;
    meeting.changed.notify_all();
    ++state.waiting;
    meeting.changed.wait(lock, [&] { return rank->has_ended() || step.arrived == rank->ranks; });
    --state.waiting;
    if (rank->has_ended()) return;
    lock.unlock();
    take(step.given);
    lock.lock();
    if (++step.done == rank->ranks) meeting.steps.erase(number);
  });
}

void reduce_all(Type type, Op op, const std::vector<Bytes>& given, size_t begin, size_t count,
                void* device_out) {
  void* const out = reached(device_out);
  switch (type) {
    case Type::kInt8:
      return reduce_as<int8_t>(op, given, begin, count, out);
    case Type::kInt32:
      return reduce_as<int32_t>(op, given, begin, count, out);
    case Type::kInt64:
      return reduce_as<int64_t>(op, given, begin, count, out);
    case Type::kFloat32:
      return reduce_as<float>(op, given, begin, count, out);
    case Type::kFloat64:
      return reduce_as<double>(op, given, begin, count, out);
    case Type::kFloat16:
    case Type::kBFloat16:
      return reduce_halves(op, type == Type::kBFloat16, given, begin, count, out);
  }
}

bool is_good(const Config* config) {
  return config->size == sizeof(Config) && config->magic == 0xcafebeef && config->blocking == 0;
}

// Joins one more rank to `meeting`.
std::shared_ptr<Rank> join(std::shared_ptr<Meeting> meeting, int ranks, int rank) {
  auto made = std::make_shared<Rank>();
  made->meeting = std::move(meeting);
  made->ranks = ranks;
  made->rank = rank;
  made->polls = state.polls.load();
  const std::lock_guard lock(made->meeting->mutex);
  ++made->meeting->joined;
  return made;
}

Comm handle_of(std::shared_ptr<Rank> rank) {
  ++state.alive;
  return std::make_unique<CommOfNccl>(CommOfNccl{std::move(rank)}).release();
}

Code connect(Comm* comm, int ranks, int rank, int ids, const UniqueId& id, const Config* config) {
  if (!is_good(config)) return Code::kInvalidArgument;
  state.ids = ids;
  if (state.connect_error != 0) return static_cast<Code>(state.connect_error.load());
  *comm = handle_of(join(meeting_of(id), ranks, rank));
  return Code::kInProgress;
}

bool has_come(Rank& rank) {
  const std::lock_guard lock(rank.meeting->mutex);
  return (state.alone || rank.meeting->joined >= rank.ranks) && !state.hangs;
}

// Returns the state of `made`, which is grown or shrunk from the communicator with `rank`.
Code derived(Rank& made, int rank) {
  if (!has_come(made) || state.derive_hangs) return Code::kInProgress;
  return state.derive_fails_late_at == rank ? Code::kUnhandledCudaError : Code::kSuccess;
}

// Counts a misuse if an unfinished growth ends before its old connections were revoked, or after
// they are gone.
void check_end(Rank& rank) {
  if (rank.grows_from == nullptr) return;
  const std::lock_guard lock(rank.grows_from->meeting->mutex);
  if (!rank.grows_from->revoked || rank.grows_from->aborted) ++state.misused;
}

// Ends the running operations and waits until they touch no memory any more.
void end(Comm comm) {
  const std::unique_ptr<CommOfNccl> ended(comm);
  Rank& rank = *ended->rank;
  check_end(rank);
  if (rank.shrinks_to != nullptr) *rank.shrunk = handle_of(std::move(rank.shrinks_to));
  std::unique_lock lock(rank.meeting->mutex);
  rank.aborted = true;
  rank.meeting->changed.notify_all();
  rank.meeting->changed.wait(lock, [&] { return rank.running == 0; });
  --state.alive;
}

// Returns true if nothing runs. NCCL does not check that: it hangs.
bool is_quiet(Rank& rank) {
  const std::lock_guard lock(rank.meeting->mutex);
  if (rank.running == 0) return true;
  ++state.misused;
  return false;
}

// Suspends or resumes. NCCL waits in both until all ranks have called it.
[[maybe_unused]] Code change_memory(Rank& rank, bool suspends) {
  if (state.keeps_memory) return Code::kInvalidUsage;
  if (!is_quiet(rank)) return Code::kInternalError;
  const std::lock_guard lock(rank.meeting->mutex);
  if (rank.suspended == suspends || rank.revoked) return Code::kInvalidUsage;
  rank.suspended = suspends;
  ++rank.memory_calls;
  ++rank.meeting->memory_calls;
  ++(suspends ? state.suspended : state.resumed);
  return Code::kInProgress;
}

}  // namespace

extern "C" {

FakeNccl* fake_nccl_state() { return &state; }

Code ncclGetVersion(int* version) {
  *version = state.version;
  return Code::kSuccess;
}

Code ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> made = 0;
  *id = {};
  const int number = ++made;
  std::memcpy(id->internal, &number, sizeof number);
  return Code::kSuccess;
}

Code ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  return connect(comm, ranks, rank, 1, id, config);
}

Code ncclCommInitRankScalable(Comm* comm, int ranks, int rank, int ids, UniqueId* id,
                              Config* config) {
  return connect(comm, ranks, rank, ids, id[0], config);
}

Code ncclCommGetAsyncError(Comm comm, Code* code) {
  Rank& rank = *comm->rank;
  if (rank.shrinks_to != nullptr) {
    *code = derived(*rank.shrinks_to, rank.rank);
    if (*code == Code::kSuccess) *rank.shrunk = handle_of(std::move(rank.shrinks_to));
    return Code::kSuccess;
  }
  if (rank.grows_from != nullptr) {
    *code = derived(rank, rank.rank);
    if (*code == Code::kSuccess) rank.grows_from.reset();
    return Code::kSuccess;
  }
  const bool here = has_come(rank);
  const std::lock_guard lock(rank.meeting->mutex);
  if (rank.meeting->memory_calls < rank.memory_calls * rank.ranks ||
      (rank.memory_calls > 0 && state.hangs)) {
    *code = Code::kInProgress;
    return Code::kSuccess;
  }
  if (rank.revoked) {
    *code = rank.running > 0 ? Code::kInProgress : Code::kSuccess;
    return Code::kSuccess;
  }
  if (state.async_error != 0) {
    *code = static_cast<Code>(state.async_error.load());
    return Code::kSuccess;
  }
  const bool in_progress = rank.polls > 0 || (rank.step == 0 && rank.running == 0 && !here);
  if (rank.polls > 0) --rank.polls;
  *code = in_progress ? Code::kInProgress : Code::kSuccess;
  return Code::kSuccess;
}

Code ncclCommFinalize(Comm comm) {
  if (comm->rank->revoked) return Code::kInvalidUsage;
  return answer(*comm->rank);
}

Code ncclCommDestroy(Comm comm) {
  end(comm);
  ++state.left;
  return Code::kSuccess;
}

Code ncclCommAbort(Comm comm) {
  end(comm);
  ++state.aborted;
  return Code::kSuccess;
}

Code ncclCommRevoke(Comm comm, int flags) {
  Rank& rank = *comm->rank;
  const std::lock_guard lock(rank.meeting->mutex);
  if (flags != 0 || rank.revoked) return Code::kInvalidArgument;
  rank.revoked = true;
  ++state.revoked;
  rank.meeting->changed.notify_all();
  return Code::kInProgress;
}

Code ncclCommShrink(Comm comm, int* excluded, int count, Comm* made, Config* config, int flags) {
  const std::shared_ptr<Rank> rank = comm->rank;
  const std::vector<int> out(excluded, excluded + count);
  *made = nullptr;
  if (count <= 0 || !is_good(config) || std::ranges::count(out, rank->rank) > 0) {
    return Code::kInvalidArgument;
  }
  if (state.derive_fails_at == rank->rank) return Code::kUnhandledCudaError;
  if (flags == 0 && !is_quiet(*rank)) return Code::kInternalError;
  if (rank->suspended) ++state.misused;
  std::shared_ptr<Meeting> meeting;
  {
    const std::lock_guard lock(rank->meeting->mutex);
    auto& place = rank->meeting->shrunk[out];
    if (place == nullptr) place = std::make_shared<Meeting>();
    meeting = place;
  }
  const auto before = std::ranges::count_if(out, [&](int other) { return other < rank->rank; });
  rank->shrinks_to = join(meeting, rank->ranks - count, rank->rank - static_cast<int>(before));
  rank->shrunk = made;
  ++state.shrunk;
  return Code::kSuccess;  // the work has begun
}

#ifndef FFDL_FAKE_NCCL_WITHOUT_GROW
Code ncclCommSuspend(Comm comm, int flags) {
  return flags == 1 ? change_memory(*comm->rank, true) : Code::kInvalidArgument;
}

Code ncclCommResume(Comm comm) { return change_memory(*comm->rank, false); }

Code ncclCommMemStats(Comm, MemoryStat stat, uint64_t* value) {
  if (state.keeps_memory) return Code::kInvalidUsage;
  *value = 1 << 20;
  return stat == MemoryStat::kSuspendable ? Code::kSuccess : Code::kInvalidArgument;
}

Code ncclCommGetUniqueId(Comm comm, UniqueId* id) {
  ncclGetUniqueId(id);
  Meeting& meeting = *comm->rank->meeting;
  const std::lock_guard lock(meeting.mutex);
  if (meeting.grown != nullptr) ++state.misused;  // it has grown, or the id is unused yet
  meeting.grown = meeting_of(*id);
  meeting.changed.notify_all();
  return Code::kSuccess;
}

Code ncclCommGrow(Comm comm, int ranks, const UniqueId* id, int rank, Comm* made, Config* config) {
  *made = nullptr;
  if (!is_good(config)) return Code::kInvalidArgument;
  if (comm == nullptr) {
    if (id == nullptr || rank < 0 || rank >= ranks) return Code::kInvalidArgument;
    if (state.derive_fails_at == rank) return Code::kUnhandledCudaError;
    *made = handle_of(join(meeting_of(*id), ranks, rank));
    ++state.grown;
    return Code::kSuccess;  // the work has begun
  }
  const std::shared_ptr<Rank> before = comm->rank;
  if (rank != -1 || ranks <= before->ranks || before->revoked) return Code::kInvalidArgument;
  if (state.derive_fails_at == before->rank) return Code::kUnhandledCudaError;
  if (!is_quiet(*before)) return Code::kInternalError;
  if (before->suspended) ++state.misused;
  std::shared_ptr<Meeting> meeting;
  {
    std::unique_lock lock(before->meeting->mutex);
    // NCCL waits here until a rank has made the id, even in non-blocking mode.
    before->meeting->changed.wait(lock, [&] { return before->meeting->grown != nullptr; });
    meeting = before->meeting->grown;
  }
  auto grown = join(meeting, ranks, before->rank);
  grown->grows_from = before;
  *made = handle_of(std::move(grown));
  ++state.grown;
  return Code::kSuccess;  // the work has begun
}
#endif

const char* ncclGetErrorString(Code code) {
  return code == Code::kRemoteError ? "remote error" : "some error";
}

const char* ncclGetLastError(Comm) { return state.last_error; }

Code ncclAllReduce(const void* in, void* out, size_t count, Type type, Op op, Comm comm,
                   Stream stream) {
  return collective(comm, in, count * size_of(type), stream, [=](const std::vector<Bytes>& given) {
    reduce_all(type, op, given, 0, count, out);
  });
}

Code ncclReduceScatter(const void* in, void* out, size_t count, Type type, Op op, Comm comm,
                       Stream stream) {
  const auto rank = static_cast<size_t>(comm->rank->rank);
  const auto ranks = static_cast<size_t>(comm->rank->ranks);
  return collective(comm, in, count * ranks * size_of(type), stream,
                    [=](const std::vector<Bytes>& given) {
                      reduce_all(type, op, given, rank * count, count, out);
                    });
}

Code ncclReduce(const void* in, void* out, size_t count, Type type, Op op, int root, Comm comm,
                Stream stream) {
  const bool is_root = comm->rank->rank == root;
  return collective(comm, in, count * size_of(type), stream, [=](const std::vector<Bytes>& given) {
    if (is_root) reduce_all(type, op, given, 0, count, out);
  });
}

Code ncclAllGather(const void* in, void* out, size_t count, Type type, Comm comm, Stream stream) {
  const size_t bytes = count * size_of(type);
  return collective(comm, in, bytes, stream, [=](const std::vector<Bytes>& given) {
    for (size_t rank = 0; rank < given.size(); ++rank) {
      std::memcpy(static_cast<std::byte*>(reached(out)) + rank * bytes, given[rank].data(), bytes);
    }
  });
}

Code ncclBroadcast(const void* in, void* out, size_t count, Type type, int root, Comm comm,
                   Stream stream) {
  const bool is_root = comm->rank->rank == root;
  const size_t bytes = count * size_of(type);
  return collective(comm, is_root ? in : nullptr, is_root ? bytes : 0, stream,
                    [=](const std::vector<Bytes>& given) {
                      std::memcpy(reached(out), given[static_cast<size_t>(root)].data(), bytes);
                    });
}

Code ncclSend(const void* in, size_t count, Type type, int peer, Comm comm, Stream stream) {
  const std::shared_ptr<Rank> rank = comm->rank;
  const size_t bytes = count * size_of(type);
  return launch(rank, stream, [=] {
    Bytes message(bytes);
    std::memcpy(message.data(), reached(in), bytes);
    const std::lock_guard lock(rank->meeting->mutex);
    rank->meeting->messages[{rank->rank, peer}].push_back(std::move(message));
    rank->meeting->changed.notify_all();
  });
}

Code ncclRecv(void* out, size_t count, Type type, int peer, Comm comm, Stream stream) {
  const std::shared_ptr<Rank> rank = comm->rank;
  const size_t bytes = count * size_of(type);
  return launch(rank, stream, [=] {
    std::unique_lock lock(rank->meeting->mutex);
    auto& messages = rank->meeting->messages[{peer, rank->rank}];
    ++state.waiting;
    rank->meeting->changed.wait(
        lock, [&] { return rank->has_ended() || (!messages.empty() && !state.hangs); });
    --state.waiting;
    if (rank->has_ended()) return;
    const Bytes message = std::move(messages.front());
    messages.pop_front();
    lock.unlock();
    std::memcpy(reached(out), message.data(), std::min(bytes, message.size()));
  });
}

Code ncclGroupStart() {
  ++group_depth;
  return Code::kSuccess;
}

Code ncclGroupEnd() {
  if (--group_depth > 0) return Code::kSuccess;
  for (auto& [stream, work] : group) stream->enqueue(std::move(work));
  group.clear();
  return Code::kSuccess;
}

}  // extern "C"
