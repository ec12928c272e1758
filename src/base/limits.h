#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

// Every built-in limit, with its reason. What a user may want to change is in an Options struct.
namespace ffdl::base {

using namespace std::chrono_literals;

// A name becomes a file name in /dev/shm, after a prefix; NAME_MAX is 255.
inline constexpr size_t kSegmentNameMax = 200;

// Descriptors that are closed in a forked child: one per server, learner and view of a process.
inline constexpr size_t kForkPrivateMax = 4096;

// Between two looks for what the kernel does not announce across processes: a name that appears, a
// file lock that its dead owner lost. Short beside a mini-batch that matters, long beside a look.
inline constexpr auto kPollInterval = 2ms;

// Between two looks of a server at the locks of its learners: a dead one is found this late at
// most.
inline constexpr auto kLivenessInterval = 5ms;

// Longest sleep on a futex before its condition is looked at again: a waker may have been killed
// between its store and its wake.
inline constexpr auto kFutexSleepMax = 50ms;

// Longest pause that a server thread makes for a snapshot reader, who may be dead.
inline constexpr auto kSnapshotPauseMax = 100ms;

// A snapshot reader gives up then: the server was killed or stopped in the middle of an update.
inline constexpr auto kSnapshotWaitMax = 10s;

// A learner's id takes 8 bits of the journal word, and 255 stands for a round of all learners.
inline constexpr int kLearnersMax = 254;

// Each server thread owns a shard; more than this is surely a mistake.
inline constexpr int kServerThreadsMax = 256;

// float32 weights of one server: 16 TiB, so that no size computed from it can overflow.
inline constexpr uint64_t kParametersMax = uint64_t{1} << 42;

// Entries of tables in the segment that an option sizes (partitions, ranges and rows per gradient).
inline constexpr uint32_t kTableEntriesMax = 1U << 20;

// A store is for records of some hundred bytes. etcd takes 1.5 MiB in a request; this leaves room.
inline constexpr size_t kStoreKeyMax = 1024;
inline constexpr size_t kStoreValueMax = size_t{1} << 20;

// Changes that a store remembers for those who wait. Who is further behind is told to look again.
inline constexpr size_t kStoreChangesMax = 256;

// Longest lease. One that long is a key that nobody will miss.
inline constexpr auto kLeaseMax = 24h;

// Members of one world. Shared memory has a slot for each, and one host has no more use for them.
inline constexpr uint64_t kRanksMax = 256;

// Elements of one operation, so that no size in bytes computed from it can overflow.
inline constexpr uint64_t kElementsMax = uint64_t{1} << 48;

// Up to here every rank reduces all of it alone: what a second step costs is more than the work.
// Not tuned: it lies between 4 KiB and 64 KiB of './dev bench allreduce', which go the one way and
// the other.
inline constexpr uint64_t kFlatBytesMax = uint64_t{32} << 10;

// Of each rank's buffer, between two looks for failures: it passes through the second-level cache.
inline constexpr uint64_t kInPlaceBlockBytes = uint64_t{16} << 10;

// Memory of other ranks that a communicator keeps mapped.
inline constexpr size_t kReachedMax = 256;

// Who fails waits this long for the others to leave its memory, and looks this often, before it
// takes other pages. They look for failures every few microseconds, if they run.
inline constexpr auto kTakeBackPatience = 10ms;
inline constexpr auto kTakeBackPoll = 50us;

// Least and largest slot of a communicator: a cache line for each of 256 blocks; 1 GiB of a host.
inline constexpr uint64_t kSlotBytesMin = uint64_t{16} << 10;
inline constexpr uint64_t kSlotBytesMax = uint64_t{1} << 30;

// A member's id and a job's name are parts of keys.
inline constexpr size_t kMemberIdMax = 128;

// Attempts at a compare-and-put that others win: each of them means that somebody else got on.
inline constexpr int kContentionMax = 256;

// Before membership asks a store again that did not answer: short beside a heartbeat, and rare
// enough for a store that has just come back.
inline constexpr auto kStoreRetry = 20ms;

// Between two looks of one who waits at a file that others change: short beside a lease.
inline constexpr auto kFileStorePoll = 5ms;

}  // namespace ffdl::base
