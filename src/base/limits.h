#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

// Every built-in limit, with its reason. What a user may want to change is in an Options struct.
namespace ffdl::base {

using namespace std::chrono_literals;

// A name becomes a file name in /dev/shm, after a prefix; NAME_MAX is 255.
inline constexpr size_t kSegmentNameMax = 200;

// Descriptors that are closed in a forked child: one per server, learner, view and connection of a
// process.
inline constexpr size_t kForkPrivateMax = 4096;

// Between two looks for what the kernel does not announce across processes: a name that appears, a
// file lock that its dead owner lost. Short beside a mini-batch that matters, long beside a look.
inline constexpr auto kPollInterval = 2ms;

// Between two looks of a server at the locks of its learners: a dead one is found this late at
// most.
inline constexpr auto kLivenessInterval = 5ms;

// Between two calls of CommunicatorOptions::look while one waits: a moment for whoever pressed
// Ctrl-C.
inline constexpr auto kLookInterval = 100ms;

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

// All that a store holds: keys, values, and this much for each entry beside them; and its leases.
// Every reply must fit a frame, the list of everything too.
inline constexpr size_t kStoreBytesMax = size_t{32} << 20;
inline constexpr size_t kStoreEntryBytes = 64;
inline constexpr size_t kStoreLeasesMax = 1U << 16;

// Changes that a store remembers for those who wait. Who is further behind is told to look again.
inline constexpr size_t kStoreChangesMax = 256;

// A message between a store and its client: the list of everything, or one put. Before a peer has
// proved itself it may send little.
inline constexpr size_t kStoreReplyMax = kStoreBytesMax + kStoreBytesMax / 2;
inline constexpr size_t kStoreRequestMax = kStoreKeyMax + kStoreValueMax + 1024;
inline constexpr size_t kStoreHelloMax = 1024;

// Bytes that wait for a peer who does not read them; then its connection is closed.
inline constexpr size_t kUnsentMax = 2 * kStoreReplyMax;

// Connections of one server, calls of one client that wait for their replies, and clients whose
// replies a server remembers in case they ask again.
inline constexpr size_t kStoreConnectionsMax = 1024;
inline constexpr size_t kStoreCallsMax = 1024;
inline constexpr size_t kStoreClientsMax = 4096;

// For a connection to be made and both sides to have proved themselves.
inline constexpr auto kStoreHandshakeMax = 2s;

// A client that lost its server looks for one again, first soon, then less often.
inline constexpr auto kStoreRetryMin = 1ms;
inline constexpr auto kStoreRetryMax = 64ms;

// Members of one etcd: more than anybody runs.
inline constexpr size_t kEtcdEndpointsMax = 16;

// For a connection to a member of etcd: short enough to try another one within a call.
inline constexpr auto kEtcdConnectMax = 1s;

// Longest answer of etcd: the list of everything as text.
inline constexpr size_t kEtcdAnswerMax = 2 * kStoreReplyMax;

// One line of a watch: the largest entries of one change that etcd puts together, as text.
inline constexpr size_t kEtcdLineMax = size_t{8} << 20;

// A watch without a change is begun anew after this, in case something between has forgotten it.
inline constexpr auto kEtcdQuietMax = 5min;

// Connections that a client of etcd keeps open for its next calls.
inline constexpr size_t kEtcdIdleMax = 8;

// Prefixes of which one client of etcd watches the changes at once, and those among them for which
// nobody waits at the moment: somebody will, a heartbeat later.
inline constexpr size_t kEtcdWatchesMax = 64;
inline constexpr size_t kEtcdIdleWatchesMax = 4;

// Between two attempts to end a watch whose connection was just being made.
inline constexpr auto kEtcdStopPoll = 5ms;

// A server writes its log anew when it has grown by this, and to so many times what it began with.
inline constexpr size_t kStoreLogGrowth = size_t{4} << 20;
inline constexpr size_t kStoreLogFactor = 4;

// A server looks at leases that seem over once more after this: what keeps them alive may have been
// waiting in a socket while the server was not running.
inline constexpr auto kLeaseGrace = 5ms;

// How often a server with leases finds out whether it is being run. Where it was called later than
// this behind its time, that time is given to all leases.
inline constexpr auto kLeaseTick = 25ms;

// A peer whose machine does not even acknowledge is given up after this.
inline constexpr auto kPeerSilentMax = 5s;

// Longest lease. One that long is a key that nobody will miss.
inline constexpr auto kLeaseMax = 24h;

// Members of one world. Shared memory has a slot for each, and one host has no more use for them.
inline constexpr uint64_t kRanksMax = 256;

// Micro-batches of one step: sixteen for each rank of the largest world.
inline constexpr uint64_t kMicroBatchesMax = 4096;

// Of parts of sums that a rank receives before it adds them up: much beside what one more operation
// costs, little beside a gradient.
inline constexpr uint64_t kMicroBatchWindowBytes = uint64_t{4} << 20;
// The same in a GPU's memory, where operations cost more and bytes less.
inline constexpr uint64_t kDeviceMicroBatchWindowBytes = uint64_t{64} << 20;

// Elements of one operation, so that no size in bytes computed from it can overflow.
inline constexpr uint64_t kElementsMax = uint64_t{1} << 48;

// Up to here every rank reduces all of it alone, in one step. Two and four ranks on two processors
// are as fast or faster in two steps from here on with buffers that the ranks share (1.3 times at
// 32 KiB), and not much slower with their own.
inline constexpr uint64_t kFlatBytesMax = uint64_t{16} << 10;

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

// What is on its way from one rank to another: several parts, so that copying in and out overlap,
// which stay in the second-level cache.
inline constexpr uint64_t kMailboxParts = 4;
inline constexpr uint64_t kMailboxPartBytes = uint64_t{32} << 10;

// Least and largest ring of sums for listeners: some small sums; a share of a large host.
inline constexpr uint64_t kSumRingBytesMin = uint64_t{64} << 10;
inline constexpr uint64_t kSumRingBytesMax = uint64_t{1} << 40;
// Up to here an operation between hosts takes one message per pair of ranks, which also says what
// it is; each rank keeps room for two of them from every other.
inline constexpr uint64_t kEagerBytesMax = uint64_t{16} << 10;

// Of each message of a larger operation between hosts: three are on their way from rank to rank,
// and while one is reduced the next must not run dry.
inline constexpr uint64_t kLinkPieceBytes = uint64_t{1} << 20;

// Longest wait for a connection, in place of no deadline: what gloo adds to the time must not
// overflow.
inline constexpr auto kLinkWaitMax = 87'600h;

// Least life of a record by which members find each other: one whose deadline is near still tells
// the others what is wrong.
inline constexpr auto kRecordLifeMin = 2s;

// Tags beside those of messages: receipts for them, one that probes whether anything can be
// received from a rank, and what follows a message.
inline constexpr uint64_t kLinkReceiptTag = 100;
inline constexpr uint64_t kLinkProbeTag = 200;
inline constexpr uint64_t kLinkTrailerTag = 300;

// Ranks that connect through one process of NCCL: so many wait for it one after the other.
inline constexpr int kNcclRanksPerId = 128;

// Of a list of buffers in a GPU's memory that is added up, at once: a copy of so much is made.
inline constexpr uint64_t kNcclStageBytes = uint64_t{64} << 20;

// Of each of the three parts of a rank's memory that other GPUs read: to copy so much takes a GPU
// several times as long as the ranks need to agree that it is there.
inline constexpr uint64_t kDeviceStageBytes = uint64_t{16} << 20;

// Who waits for a GPU looks again at once for a while, as most operations are over soon, then after
// a sleep: short beside a step, long beside a question to the driver.
inline constexpr auto kDeviceSpinMax = 2ms;
inline constexpr auto kDevicePoll = 50us;

// For NCCL to send what an operation that ended well has left on its way, when a member leaves.
inline constexpr auto kNcclLeaveMax = 2s;

// Of a state that goes to a newcomer, between two looks at its hash: it passes through the caches.
inline constexpr uint64_t kStatePieceBytes = uint64_t{1} << 20;

// Of state and gradients in a GPU's memory, that passes through the host's at once: its copy takes
// far longer than to ask for it. Two such slices are pinned.
inline constexpr uint64_t kDeviceSliceBytes = uint64_t{4} << 20;

// Of gradients in a GPU's memory whose norm is taken, as many sums as come to the host at once: 1
// MiB of them.
inline constexpr uint64_t kDeviceNormBlocks = 16384;

// Of each averaged gradient, for the hash of a session's history: free beside the average, and
// another as soon as anything was.
inline constexpr uint64_t kHistorySampleBytes = 64;

// What the participants of a session keep, all together: it is copied when the world changes.
inline constexpr uint64_t kParticipantBytesMax = uint64_t{1} << 30;

// The head of a safetensors file, as the format has it.
inline constexpr uint64_t kSafetensorsHeadMax = 100'000'000;

// Of a file of a checkpoint, that is written at once: large for a disk that takes it out of memory
// itself. What was hashed just before is in the caches still.
inline constexpr uint64_t kShardWriteBytes = uint64_t{4} << 20;

// A manifest: some hundred bytes for each tensor and each of kRanksMax shards.
inline constexpr uint64_t kManifestBytesMax = uint64_t{64} << 20;

// What a user may add to a checkpoint: the state of generators, not a data set.
inline constexpr uint64_t kNoteBytesMax = uint64_t{64} << 20;

// For the record of the world to name a checkpoint. The checkpoint is on the disk by then, and the
// next one is not held up for long by a store that is away.
inline constexpr auto kPublishPatience = 30s;

// Who lost its communicator waits this long for a world that others form of themselves, before it
// asks for one: a death is seen by the store meanwhile, as a lease that ended.
inline constexpr auto kNextWorldPatience = 500ms;

// Between two looks of a session at whether its membership still stands while it waits.
inline constexpr auto kStandingInterval = 50ms;

// A member's id and a job's name are parts of keys.
inline constexpr size_t kMemberIdMax = 128;

// Attempts at a compare-and-put that others win: each of them means that somebody else got on.
inline constexpr int kContentionMax = 256;

// Before membership asks a store again that did not answer: short beside a heartbeat, and rare
// enough for a store that has just come back.
inline constexpr auto kStoreRetry = 20ms;

// A data set: partitions are numbered with 32 bits, and the positions of the last epoch's samples
// must be numbers of 64.
inline constexpr uint64_t kSamplesMax = uint64_t{1} << 48;
inline constexpr uint64_t kPartitionsMax = (uint64_t{1} << 32) - 1;
inline constexpr uint64_t kPartitionSamplesMax = uint64_t{1} << 32;
inline constexpr uint64_t kEpochsMax = uint64_t{1} << 31;

// Partitions that one member holds to read ahead.
inline constexpr uint64_t kLeasesMax = 64;

// Steps of one order for all members: that are forecast, and that a pipeline reads ahead.
inline constexpr size_t kForecastStepsMax = 1024;
inline constexpr size_t kStepsReadAhead = 16;

// Of a data file whose samples must be found: read at once, and where the next one lies further on.
inline constexpr size_t kScanBytes = size_t{256} << 10;
inline constexpr size_t kScanLeapBytes = size_t{4} << 10;

// Samples of a file that lie this much further apart than they are long are read one by one.
inline constexpr uint64_t kReadGapFactor = 2;

// Others in so many stretches: of a batch that ends one partition and begins another, or of a
// window of them. What is in one lies no further apart than this.
inline constexpr size_t kStretchesMax = 16;
inline constexpr uint64_t kStretchReachBytes = uint64_t{1} << 20;

// Samples of this size and more, on average, are read each to its own place, whatever their order:
// the kernel takes a while for each place, and a copy takes longer than that from here on.
inline constexpr uint64_t kReadInPlaceBytes = uint64_t{4} << 10;

// Samples up to this size, on average, that are used in another order than they lie in are brought
// into the caches together. Of larger ones the processor fetches several lines at once by itself.
inline constexpr uint64_t kTouchedBytes = 256;

// Between samples that are read each to its own place: so much is read too, and not used, where a
// call of the system for each takes longer.
inline constexpr size_t kReadThroughBytes = size_t{2} << 10;

// What a reader of a pipeline reads at once: much beside what waking it costs, some milliseconds.
// Pieces of partitions up to twice as long are not cut: samples that are shuffled within them are
// then read in one go.
inline constexpr uint64_t kReadBlockBytes = uint64_t{4} << 20;

// Of a sample of a source that does not say how large they are.
inline constexpr uint64_t kUnknownSampleBytes = 4096;

// Of pinned memory for samples, at once: it is a call of the driver, however little it pins.
inline constexpr size_t kPinnedBytesMin = size_t{1} << 20;

// Threads that one pipeline reads with: a disk is busy with fewer.
inline constexpr int kReadThreadsMax = 64;

// One sample, so that no size computed from it can overflow.
inline constexpr uint64_t kSampleBytesMax = uint64_t{1} << 40;

// A ring of batches: slots, which are looked through by nobody; the bytes of one, so that no size
// computed from it can overflow; and consumers, each of which is looked at for every batch.
inline constexpr uint32_t kRingSlotsMax = 1U << 16;
inline constexpr uint64_t kRingSlotBytesMax = uint64_t{1} << 40;
inline constexpr uint32_t kRingConsumersMax = 64;

// Of a text in a file that says what follows, as the header of an array or the name of a member of
// an archive: what is longer is none.
inline constexpr uint64_t kHeaderTextMax = uint64_t{64} << 10;

// The index of a folder of shards; it has some hundred bytes for each of them.
inline constexpr uint64_t kShardIndexBytesMax = uint64_t{256} << 20;

// Steps that wait to be stable. A step is when the next one returns, so that two are plenty.
inline constexpr size_t kUnstableStepsMax = 64;

// Between two looks of one who waits at a file that others change: short beside a lease.
inline constexpr auto kFileStorePoll = 5ms;

// A worker's line that is longer is passed on in pieces.
inline constexpr size_t kLogLineMax = size_t{64} << 10;

// Before a worker that failed is started again, doubled with each time: soon, as a job may wait for
// it, and in the end seldom enough for a host that is short of something.
inline constexpr auto kRestartPauseMin = 200ms;
inline constexpr auto kRestartPauseMax = 30s;

// The lease of what `ffdl run` says about its workers, and between two renewals.
inline constexpr auto kNodeLease = 5s;
inline constexpr auto kNodeHeartbeat = 1s;

}  // namespace ffdl::base
