#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

// Defines every built-in limit with its reason. Values that a user may want to change are in an
// Options struct.
namespace ffdl::base {

using namespace std::chrono_literals;

// A segment's name becomes a file name in /dev/shm, after a prefix. NAME_MAX is 255.
inline constexpr size_t kSegmentNameMax = 200;

// Descriptors that are closed in a forked child: one per server, learner, view and connection of a
// process.
inline constexpr size_t kForkPrivateMax = 4096;

// Interval between polls for events that the kernel does not announce across processes: a new name,
// or a file lock that its dead owner lost. Short compared with a relevant mini-batch, long compared
// with one poll.
inline constexpr auto kPollInterval = 2ms;

// Interval between a server's checks of its learners' locks: the longest delay until a death is
// found.
inline constexpr auto kLivenessInterval = 5ms;

// Interval between calls of CommunicatorOptions::interrupt_check during a wait. Ctrl-C takes effect
// within it.
inline constexpr auto kLookInterval = 100ms;

// Interval between questions to the kernel whether this process's launcher still runs.
inline constexpr auto kLauncherInterval = 50ms;

// Longest sleep on a futex before its condition is checked again. A waker may have been killed
// between its store and its wake.
inline constexpr auto kFutexSleepMax = 50ms;

// Longest pause that a server thread makes for a snapshot reader, which may be dead.
inline constexpr auto kSnapshotPauseMax = 100ms;

// Longest wait of a snapshot reader. After it, the server was killed or stopped during an update.
inline constexpr auto kSnapshotWaitMax = 10s;

// A learner's id takes 8 bits of the journal word. The value 255 means a round of all learners.
inline constexpr int kLearnersMax = 254;

// Each server thread owns a shard. A larger number is surely a mistake.
inline constexpr int kServerThreadsMax = 256;

// float32 weights of one server: 16 TiB, so that no size computed from it can overflow.
inline constexpr uint64_t kParametersMax = uint64_t{1} << 42;

// Entries of tables in the segment that an option sizes (partitions, ranges and rows per gradient).
inline constexpr uint32_t kTableEntriesMax = 1U << 20;

// A store is for records of some hundred bytes. etcd takes 1.5 MiB in a request; this leaves room.
inline constexpr size_t kStoreKeyMax = 1024;
inline constexpr size_t kStoreValueMax = size_t{1} << 20;

// All contents of a store: keys, values, this much overhead for each entry, and leases. Every reply
// must fit a frame, including the list of everything.
inline constexpr size_t kStoreBytesMax = size_t{32} << 20;
inline constexpr size_t kStoreEntryBytes = 64;
inline constexpr size_t kStoreLeasesMax = 1U << 16;

// Changes that a store remembers for waiting clients. A client that is further behind must read
// again.
inline constexpr size_t kStoreChangesMax = 256;

// Largest messages between a store and its client: the list of everything, or one put. A peer that
// has not proved itself may send little.
inline constexpr size_t kStoreReplyMax = kStoreBytesMax + kStoreBytesMax / 2;
inline constexpr size_t kStoreRequestMax = kStoreKeyMax + kStoreValueMax + 1024;
inline constexpr size_t kStoreHelloMax = 1024;

// Unsent bytes for a peer that does not read them. Above this, its connection is closed.
inline constexpr size_t kUnsentMax = 2 * kStoreReplyMax;

// Unsent bytes for all clients of one server. Above this, the client with the most is closed. One
// client may have its full limit, and another one a full list.
inline constexpr size_t kStoreUnsentMax = kUnsentMax + kStoreReplyMax;

// Changes that all clients of one server wait for. Each is compared with every change; a member
// waits for a few.
inline constexpr size_t kStoreWaitsMax = size_t{1} << 14;

// Connections to one port that have not proved themselves. A new one closes the oldest. A proof
// takes two round trips. At 50 ms each, a flood of 2,500 connections a second lets members in. A
// process with few descriptors has a smaller limit (net/unproved_limit.h).
inline constexpr size_t kUnprovedMax = 256;
inline constexpr size_t kUnprovedMin = 4;

// Interval between log lines about refused connections: a flood must not fill the disk.
inline constexpr auto kRefusalLogInterval = 10s;

// Answers to all clients that a server remembers for repeated requests.
inline constexpr size_t kStoreAnswersMax = size_t{1} << 16;

// Limits of one server and its clients: proved connections, and calls of one client that wait for
// replies. The last one limits the clients whose replies are remembered for repeated requests.
inline constexpr size_t kStoreConnectionsMax = 1024;
inline constexpr size_t kStoreCallsMax = 1024;
inline constexpr size_t kStoreClientsMax = 4096;

// Longest time to make a connection and for both sides to prove themselves.
inline constexpr auto kStoreHandshakeMax = 2s;

// Pause before a client that lost its server searches for one again. It grows from Min to Max.
inline constexpr auto kStoreRetryMin = 1ms;
inline constexpr auto kStoreRetryMax = 64ms;

// Members of one etcd: more than any deployment has.
inline constexpr size_t kEtcdEndpointsMax = 16;

// Longest time to connect to a member of etcd: short enough to try another one within a call.
inline constexpr auto kEtcdConnectMax = 1s;

// Longest answer of etcd: the list of everything as text.
inline constexpr size_t kEtcdAnswerMax = 2 * kStoreReplyMax;

// Longest line of a watch: the largest entries that etcd combines in one change, as text.
inline constexpr size_t kEtcdLineMax = size_t{8} << 20;

// A watch without a change is restarted after this time, since an intermediary may have dropped it.
inline constexpr auto kEtcdQuietMax = 5min;

// Connections that a client of etcd keeps open for its next calls.
inline constexpr size_t kEtcdIdleMax = 8;

// Prefixes that one client of etcd watches at once, and how many of them may have no waiting
// caller. The next caller comes about a heartbeat later.
inline constexpr size_t kEtcdWatchesMax = 64;
inline constexpr size_t kEtcdIdleWatchesMax = 4;

// Interval between attempts to end a watch whose connection is just being made.
inline constexpr auto kEtcdStopPoll = 5ms;

// A server rewrites its log at the larger of two sizes: its size after the last rewrite plus
// Growth, or Factor times that size.
inline constexpr size_t kStoreLogGrowth = size_t{4} << 20;
inline constexpr size_t kStoreLogFactor = 4;

// A server checks leases that seem expired again after this time. Their renewals may have waited in
// a socket while the server was not running.
inline constexpr auto kLeaseGrace = 5ms;

// Interval of the timer by which a server with leases detects that it was not running. If the timer
// fires late by more than this, all leases are extended by the delay.
inline constexpr auto kLeaseTick = 25ms;

// A standstill of this process that is longer is logged. A busy machine causes shorter ones.
inline constexpr auto kStandstillToLog = 1s;

// A peer whose machine does not even acknowledge is abandoned after this time.
inline constexpr auto kPeerSilentMax = 5s;

// Longest lease. A key with so long a lease is one that no process will miss.
inline constexpr auto kLeaseMax = 24h;

// Members of one world. Shared memory has a slot for each, and one host has no use for more.
inline constexpr uint64_t kRanksMax = 256;

// Micro-batches of one step: sixteen for each rank of the largest world.
inline constexpr uint64_t kMicroBatchesMax = 4096;

// Bytes of partial sums that a rank receives before it adds them. Transferring so many costs much
// more than one further operation, and they are few compared with a gradient.
inline constexpr uint64_t kMicroBatchWindowBytes = uint64_t{4} << 20;
// The window in a GPU's memory, where operations cost more and bytes less.
inline constexpr uint64_t kDeviceMicroBatchWindowBytes = uint64_t{64} << 20;

// Elements of one operation, so that no size in bytes computed from it can overflow.
inline constexpr uint64_t kElementsMax = uint64_t{1} << 48;

// Up to this size every rank reduces the whole buffer alone, in one step. With two and four ranks
// on two processors, two steps are as fast or faster above it with shared buffers (1.3 times at 32
// KiB). With private buffers they are not much slower.
inline constexpr uint64_t kFlatBytesMax = uint64_t{16} << 10;

// Bytes of each rank's buffer between two checks for failures: they pass through the second-level
// cache.
inline constexpr uint64_t kInPlaceBlockBytes = uint64_t{16} << 10;

// Memory regions of other ranks that a communicator keeps mapped.
inline constexpr size_t kReachedMax = 256;

// A rank that fails waits this long for the other ranks to leave its memory, and polls this often.
// After that it replaces the pages. Running ranks check for failures every few microseconds.
inline constexpr auto kTakeBackPatience = 10ms;
inline constexpr auto kTakeBackPoll = 50us;
// Longest wait until no other rank can write to the memory. It applies if a stopped rank still may
// and new pages are refused. After it, the operation reports that its buffer is not safe.
inline constexpr auto kTakeBackMax = 5s;

// Least and largest slot of a communicator: a cache line for each of 256 blocks; 1 GiB of a host.
inline constexpr uint64_t kSlotBytesMin = uint64_t{16} << 10;
inline constexpr uint64_t kSlotBytesMax = uint64_t{1} << 30;

// Parts of a message in transit from one rank to another. Several parts let copying in and out
// overlap, and they stay in the second-level cache.
inline constexpr uint64_t kMailboxParts = 4;
inline constexpr uint64_t kMailboxPartBytes = uint64_t{32} << 10;

// Least and largest ring of sums for all_reduce subscribers: some small sums; a share of a large
// host.
inline constexpr uint64_t kSumRingBytesMin = uint64_t{64} << 10;
inline constexpr uint64_t kSumRingBytesMax = uint64_t{1} << 40;
// Up to this size an operation between hosts takes one message per pair of ranks, which also
// identifies the operation. Each rank has room for two of them from every other rank.
inline constexpr uint64_t kEagerBytesMax = uint64_t{16} << 10;

// Bytes of each message of a larger operation between hosts. Three are in transit from rank to
// rank, so that the next has arrived while one is reduced.
inline constexpr uint64_t kLinkPieceBytes = uint64_t{1} << 20;

// Bytes that a connection of Backend::kTcp reads ahead: a small first message with its header, and
// what follows it.
inline constexpr size_t kLinkStagedBytes = size_t{32} << 10;

// Time for which a rank asks its connections again and again before it sleeps: about the round trip
// of a fast network.
inline constexpr auto kLinkSpin = 50us;

// Longest wait for a connection without a deadline. gloo adds it to the current time, which must
// not overflow.
inline constexpr auto kLinkWaitMax = 87'600h;

// Limits of connections to a member's port that have not proved which member they are, kUnprovedMax
// at a time. A newer one replaces the oldest, which has existed for at least Min. Each may last for
// Max. A connection of a member is proved after one round trip. At most kLinkAcceptsMax are
// accepted before the existing ones are served.
inline constexpr auto kLinkVisitMin = 50ms;
inline constexpr auto kLinkVisitMax = 10s;
inline constexpr int kLinkAcceptsMax = 16;
// A member is lost if the listener at its address closes this many connections in a row without
// sending anything. A member without room for a connection sends its challenge first.
inline constexpr int kLinkClosedMax = 5;
// Pause before a member connects again after its connection was dropped before its proof.
inline constexpr auto kLinkRetryInterval = 20ms;
// A complete world is abandoned if no further link was proved for this time: two of its members
// cannot reach each other. A lost first packet is sent again after a second.
inline constexpr auto kLinkSilenceMax = 2s;

// Least lifetime of a record by which members find each other. A record near its deadline still
// reports the problem to the other members.
inline constexpr auto kRecordLifeMin = 2s;

// Tags other than those of messages: receipts, probes whether anything can be received from a rank,
// and trailers of messages.
inline constexpr uint64_t kLinkReceiptTag = 100;
inline constexpr uint64_t kLinkProbeTag = 200;
inline constexpr uint64_t kLinkTrailerTag = 300;

// Ranks that connect through one NCCL process, which serves them one after the other.
inline constexpr int kNcclRanksPerId = 128;

// Bytes of a list of GPU buffers that are added up at once; they are copied to a staging buffer.
inline constexpr uint64_t kNcclStageBytes = uint64_t{64} << 20;

// Bytes of each of the three parts of a rank's memory that other GPUs read. Copying that much takes
// a GPU several times as long as the ranks need to agree that it is ready.
inline constexpr uint64_t kDeviceStageBytes = uint64_t{16} << 20;

// A thread that waits for a GPU first polls without sleeping, since most operations end soon. Then
// it sleeps between polls: short compared with a step, long compared with a query of the driver.
inline constexpr auto kDeviceSpinMax = 2ms;
inline constexpr auto kDevicePoll = 50us;

// Longest time for NCCL to send the rest of a successful operation when a member leaves.
inline constexpr auto kNcclLeaveMax = 2s;

// Bytes of a state sent to a newcomer that are hashed at once: they pass through the caches.
inline constexpr uint64_t kStatePieceBytes = uint64_t{1} << 20;

// Bytes of state and gradients in a GPU's memory that pass through host memory at once. Copying
// them takes far longer than starting the copy. Two such slices are pinned.
inline constexpr uint64_t kDeviceSliceBytes = uint64_t{4} << 20;

// Blocks of a gradient in a GPU's memory whose sums of squares are copied to the host at once: 1
// MiB of sums.
inline constexpr uint64_t kDeviceNormBlocks = 16384;

// Bytes of each averaged gradient that enter the hash of a session's history. The cost is
// negligible compared with the average, and any difference changes the hash.
inline constexpr uint64_t kHistorySampleBytes = 64;

// Total state of a session's participants, which is copied when the world changes.
inline constexpr uint64_t kParticipantBytesMax = uint64_t{1} << 30;

// The head of a safetensors file, as the format limits it.
inline constexpr uint64_t kSafetensorsHeadMax = 100'000'000;

// Bytes of a checkpoint file that are written at once: large for a disk that reads them from memory
// itself. Bytes that were just hashed are still in the caches.
inline constexpr uint64_t kShardWriteBytes = uint64_t{4} << 20;

// A manifest: some hundred bytes for each tensor and each of kRanksMax shards.
inline constexpr uint64_t kManifestBytesMax = uint64_t{64} << 20;

// User data in a checkpoint: the state of generators, not a data set.
inline constexpr uint64_t kNoteBytesMax = uint64_t{64} << 20;

// Longest wait until the record of the world names a checkpoint. The checkpoint is on the disk by
// then. A store that is away must not delay the next one for long.
inline constexpr auto kPublishPatience = 30s;

// Interval between checks of a waiting session that its membership is still valid.
inline constexpr auto kStandingInterval = 50ms;

// Other members' lives that a member reports as unreachable: the newest ones.
inline constexpr size_t kUnreachedMax = 64;

// A member's id and a job's name are parts of keys.
inline constexpr size_t kMemberIdMax = 128;

// Attempts at a compare-and-put that other members win. Each lost one means that another member
// made progress.
inline constexpr int kContentionMax = 256;

// Pause before membership repeats a request that a store did not answer. Short compared with a
// heartbeat, and rare enough for a store that has just come back.
inline constexpr auto kStoreRetry = 20ms;

// A data set: partitions are numbered with 32 bits, and the positions of the last epoch's samples
// must fit in 64.
inline constexpr uint64_t kSamplesMax = uint64_t{1} << 48;
inline constexpr uint64_t kPartitionsMax = (uint64_t{1} << 32) - 1;
inline constexpr uint64_t kPartitionSamplesMax = uint64_t{1} << 32;
inline constexpr uint64_t kEpochsMax = uint64_t{1} << 31;

// Partitions that one member leases to read ahead.
inline constexpr uint64_t kLeasesMax = 64;

// Steps of one order for all members: those that are forecast, and those that a pipeline reads
// ahead.
inline constexpr size_t kForecastStepsMax = 1024;
inline constexpr size_t kStepsReadAhead = 16;

// Bytes that are read at once from a data file whose samples must be found; after a jump forward,
// the smaller number.
inline constexpr size_t kScanBytes = size_t{256} << 10;
inline constexpr size_t kScanLeapBytes = size_t{4} << 10;

// File ranges are read whole if they have at most this many times the bytes of their samples.
// Otherwise the samples are read one by one.
inline constexpr uint64_t kReadGapFactor = 2;

// Other samples are read in at most this many file ranges. A batch may end one partition and begin
// another, or belong to a window of partitions. Samples in one range are at most Reach apart.
inline constexpr size_t kStretchesMax = 16;
inline constexpr uint64_t kStretchReachBytes = uint64_t{1} << 20;

// Samples of at least this average size are each read to their own place, whatever their order. The
// kernel needs some time for each place. From this size on, a copy takes longer than that.
inline constexpr uint64_t kReadInPlaceBytes = uint64_t{4} << 10;

// Samples up to this average size are brought into the caches together if they are used out of file
// order. For larger ones the processor fetches several lines at once by itself.
inline constexpr uint64_t kTouchedBytes = 256;

// Gap between samples that are each read to their own place. A gap up to this size is read and
// discarded, since a system call for each sample takes longer.
inline constexpr size_t kReadThroughBytes = size_t{2} << 10;

// Bytes that a reader of a pipeline reads at once: much compared with the cost of waking it, some
// milliseconds. Pieces of partitions up to twice as long are not cut. Samples that are shuffled
// within them are then read at once.
inline constexpr uint64_t kReadBlockBytes = uint64_t{4} << 20;

// Assumed size of a sample of a source that does not report it.
inline constexpr uint64_t kUnknownSampleBytes = 4096;

// Least pinned memory for samples at once. Each pinning is a call of the driver, however small.
inline constexpr size_t kPinnedBytesMin = size_t{1} << 20;

// Threads that one pipeline reads with: fewer keep a disk busy.
inline constexpr int kReadThreadsMax = 64;

// Bytes of one sample, so that no size computed from it can overflow.
inline constexpr uint64_t kSampleBytesMax = uint64_t{1} << 40;

// Limits of a ring of batches. Slots are never scanned. The bytes of one are limited so that no
// size computed from them can overflow. Each consumer is checked for every batch.
inline constexpr uint32_t kRingSlotsMax = 1U << 16;
inline constexpr uint64_t kRingSlotBytesMax = uint64_t{1} << 40;
inline constexpr uint32_t kRingConsumersMax = 64;

// A descriptive text in a file, such as the header of an array or a member's name in an archive. A
// longer one is invalid.
inline constexpr uint64_t kHeaderTextMax = uint64_t{64} << 10;

// The index of a folder of shards; it has some hundred bytes for each of them.
inline constexpr uint64_t kShardIndexBytesMax = uint64_t{256} << 20;

// Steps that wait to be stable. A step is stable when the next one returns, so that two are plenty.
inline constexpr size_t kUnstableStepsMax = 64;

// Interval between polls of a file that other processes change: short compared with a lease.
inline constexpr auto kFileStorePoll = 5ms;

// A longer line of a worker is forwarded in pieces.
inline constexpr size_t kLogLineMax = size_t{64} << 10;

// Pause before a failed worker is started again, doubled each time. It starts short, since a job
// may wait for the worker. It ends long enough for a host that lacks some resource.
inline constexpr auto kRestartPauseMin = 200ms;
inline constexpr auto kRestartPauseMax = 30s;

// A worker that fails in a shorter life failed early: Python has begun, and reached a line that
// cannot work.
inline constexpr auto kEarlyFailureMax = 60s;

// Lease of the records of `ffdl run` about its workers, and the interval of its renewals.
inline constexpr auto kNodeLease = 5s;
inline constexpr auto kNodeHeartbeat = 1s;

}  // namespace ffdl::base
