#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/comm/shared_memory.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

// The transport between the members of a communicator.
enum class Backend : uint32_t {
  kAuto,          // kShm if all members share memory, else kHierarchical
  kShm,           // shared memory of one host
  kTcp,           // TCP connections, also inside a host
  kGloo,          // TCP connections through the gloo library, for comparison
  kHierarchical,  // shared memory inside a host, TCP between hosts
  kLocal,         // the threads of one process: make_local_communicators()
  kNccl,          // NVIDIA's GPUs through NCCL; buffers in host memory as with kAuto
  kDeviceShm,     // one host's GPUs through their memory; up to 8 ranks, which may share a GPU
};

// Returns true if the operations accept buffers in a GPU's memory.
inline bool reaches_devices(Backend backend) {
  return backend == Backend::kNccl || backend == Backend::kDeviceShm;
}

// The way in which kNccl connects the GPUs of a job's next world.
enum class GpuWorlds : uint32_t {
  kFresh,  // with new connections, while the present world works: no member waits
  kReuse,  // in continue_from(), for which all members wait: NCCL grows or shrinks the present
           // world where it can; otherwise all connections are new
};

enum class ReduceOp : uint32_t {
  kSum,   // integers wrap around
  kMean,  // floating point only
  kMin,   // NaN if any input is NaN
  kMax,   // NaN if any input is NaN
  kProduct,
};

enum class Collective : uint32_t {
  kAllReduce,      // `out` of all ranks: the reduction of all `in`
  kReduceScatter,  // `out` of rank r: block r of the reduction of all `in`
  kReduce,         // `out` of the root: the reduction of all `in`
  kAllGather,      // `out` of all ranks: the `in` of rank 0, 1, ..
  kGather,         // `out` of the root: the `in` of rank 0, 1, ..
  kBroadcast,      // `out` of all ranks: the `in` of the root
  kScatter,        // `out` of rank r: block r of the root's `in`
  kAllToAll,       // `out` of rank r: block r of the `in` of rank 0, 1, ..
  kBarrier,        // no buffers; ok when all members have called
  kSend,           // between two members only: sends `in` to the peer
  kRecv,           // between two members only: receives `out` from the peer
};

// The request of one member. All members must pass equal requests, except for the addresses of
// their buffers. A send and its recv concern only two members. A list of buffers counts as the
// concatenation of their elements, so that one operation takes many tensors without a copy. Each
// member may divide the elements among buffers differently. All buffers have one DType; blocks are
// of equal size.
struct Operation {
  Collective kind = Collective::kBarrier;
  std::span<const Buffer> in{};   // empty if this member sends nothing, or all_reduce is in place
  std::span<const Buffer> out{};  // empty if this member receives nothing
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  int peer = 0;  // the other member of a send or recv
};

}  // namespace ffdl

// Collectives of one generation of a world. docs/decisions/0007-collectives.md explains the design
// and the guarantees.
namespace ffdl {

// The collectives of one world. All members call them in the same order.
// A sum has the same bits at every member, on every back end and in every order of arrival. It is
// added along a fixed tree over the ranks. kNccl is an exception for buffers in the memory of GPUs:
// sums have NCCL's own order, and a minimum or maximum may lose a NaN.
// With kNccl and kDeviceShm the buffers of an operation are all in the GPU's memory, or all in the
// host's. The operation runs after earlier work of the GPU's default stream. The caller must wait
// for other work that fills its buffers. docs/guide/gpu.md has the rest.
// After its first failure every operation fails: connect a communicator of a newer world.
// Threads: one thread at a time runs operations; abort() from any thread, at any time.
// Blocks: every operation waits for the other members until its deadline; abort() until no thread
//         reads or writes the caller's buffers for this member.
// Errors: kTimeout (this member's deadline passed), kPeerLost (another member died, failed or
//         left), kCancelled (aborted here, or this process's launcher has ended),
//         kInvalidArgument (a wrong call, detected before any data is sent: the communicator stays
//         usable; or members disagree: the message names both), kCorrupt (a member sent invalid
//         data; the message names it). After an error outputs are undefined, also in-place buffers.
//         Other inputs are never changed.
class FFDL_API Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const World& world() const = 0;
  // Returns the back end in use, never kAuto. Returns kTcp also if kAuto or kHierarchical cannot
  // form two levels.
  virtual Backend backend() const = 0;
  virtual Status run(const Operation& operation, Time deadline) = 0;
  // Ends this member's part. Afterwards every operation here fails; other members get kPeerLost.
  virtual void abort(Status why) = 0;

  // Continues from this member's communicator of the previous world, which is over. `before` is
  // null at a newcomer. All members may call this function, before their first operation. With
  // GpuWorlds::kReuse they must, because it connects their GPUs. Operations of `before` must have
  // ended; with kNccl later ones fail with kCancelled. The caller owns `before` and may destroy it
  // afterwards. Errors: those of an operation and of connect_communicator().
  virtual Status continue_from(Communicator* /*before*/, Time /*deadline*/) { return {}; }

  // Releases this back end's GPU memory until resume(), for other work on the GPUs. All members
  // call suspend() and resume() in turns, between operations. Until resume(), operations on buffers
  // in a GPU's memory return kInvalidArgument; abort() works as always. kNccl releases copies of
  // lists and, with NCCL 2.29.7 or later, the memory that NCCL itself can release. Other back ends
  // release nothing. Call resume() before destroying the communicator, or NCCL may not free the
  // rest. Errors: those of an operation.
  virtual Status suspend(Time /*deadline*/) { return {}; }
  virtual Status resume(Time /*deadline*/) { return {}; }

  // Registers memory. An in-place all_reduce then runs without a copy, if every rank passes one
  // buffer that is all of a registered memory. Back ends of one host read and write these buffers
  // in place. If that is impossible (another host, user or pid namespace), only the speed differs.
  // Call this function between operations. The registration ends when the caller destroys the
  // memory. After an error the buffer is undefined, as always in place.
  virtual Status register_memory(const std::shared_ptr<SharedMemory>& /*memory*/) { return {}; }

  // Publishes the result of every later all_reduce: each member also copies its share into a ring
  // in shared memory. Any AllReduceSubscriber (all_reduce_subscriber.h) may read the ring, and
  // members never wait for subscribers. All members call this function at the same place in the
  // order of operations, with equal options, and later close_to_subscribers(). `store` must live
  // until then. `ring_bytes`: the size of the ring, all of it reserved now. A result stays in the
  // ring until newer results need the room: use several times the largest result, such as 64 MiB.
  // Errors: those of an operation. After kExhausted (no memory), kUnavailable (members cannot open
  // each other's memory: users, pid namespaces), kInvalidArgument (ring_bytes differ) and
  // kUnimplemented the communicator stays usable, without subscribers.
  virtual Status open_to_subscribers(Store& /*store*/, uint64_t /*ring_bytes*/, Time /*deadline*/) {
    return Status(StatusCode::kUnimplemented,
                  "open to subscribers: this back end has none; use Backend::kShm");
  }
  virtual void close_to_subscribers() {}

  // Reduces in place.
  Status all_reduce(Buffer inout, ReduceOp op, Time deadline) {
    return all_reduce(std::span<const Buffer>(&inout, 1), op, deadline);
  }
  Status all_reduce(std::span<const Buffer> inout, ReduceOp op, Time deadline) {
    return run({Collective::kAllReduce, {}, inout, op}, deadline);
  }
  Status all_reduce(Buffer in, Buffer out, ReduceOp op, Time deadline) {
    return run({Collective::kAllReduce, {&in, 1}, {&out, 1}, op}, deadline);
  }
  // Requires `in` to have world().size() times the elements of `out`.
  Status reduce_scatter(Buffer in, Buffer out, ReduceOp op, Time deadline) {
    return run({Collective::kReduceScatter, {&in, 1}, {&out, 1}, op}, deadline);
  }
  // Ignores `out` except at the root.
  Status reduce(Buffer in, Buffer out, ReduceOp op, int root, Time deadline) {
    return run({Collective::kReduce, {&in, 1}, at_root(out, root), op, root}, deadline);
  }
  // Requires `out` to have world().size() times the elements of `in`.
  Status all_gather(Buffer in, Buffer out, Time deadline) {
    return run({Collective::kAllGather, {&in, 1}, {&out, 1}}, deadline);
  }
  Status gather(Buffer in, Buffer out, int root, Time deadline) {
    return run({Collective::kGather, {&in, 1}, at_root(out, root), {}, root}, deadline);
  }
  // Copies the root's `inout` to all members.
  Status broadcast(Buffer inout, int root, Time deadline) {
    return run({Collective::kBroadcast, at_root(inout, root), {&inout, 1}, {}, root}, deadline);
  }
  // Ignores `in` except at the root.
  Status scatter(Buffer in, Buffer out, int root, Time deadline) {
    return run({Collective::kScatter, at_root(in, root), {&out, 1}, {}, root}, deadline);
  }
  Status all_to_all(Buffer in, Buffer out, Time deadline) {
    return run({Collective::kAllToAll, {&in, 1}, {&out, 1}}, deadline);
  }
  Status barrier(Time deadline) { return run({}, deadline); }

  // Sends to one member, which calls recv() with the same number of elements and dtype. Messages of
  // a pair arrive in order. Ok at the sender means that all data has been received. Even with 0
  // elements, send() never ends before recv() has begun. So if two members both send first, each
  // waits until its deadline: one of them must receive first.
  Status send(Buffer in, int to, Time deadline) {
    return send(std::span<const Buffer>(&in, 1), to, deadline);
  }
  Status send(std::span<const Buffer> in, int to, Time deadline) {
    return run({.kind = Collective::kSend, .in = in, .peer = to}, deadline);
  }
  Status recv(Buffer out, int from, Time deadline) {
    return recv(std::span<const Buffer>(&out, 1), from, deadline);
  }
  Status recv(std::span<const Buffer> out, int from, Time deadline) {
    return run({.kind = Collective::kRecv, .out = out, .peer = from}, deadline);
  }

 private:
  std::span<const Buffer> at_root(const Buffer& buffer, int root) const {
    return {&buffer, world().rank == root ? size_t{1} : size_t{0}};
  }
};

struct CommunicatorOptions {
  Backend backend = Backend::kAuto;  // the same at all members
  // The IP address at which members on other hosts reach this host. Each connection must prove that
  // it belongs to a member. Empty: see own_address().
  std::string address{};
  // Encrypts the connections of kTcp and of kHierarchical by TLS 1.3, with keys of this world. The
  // environment variable FFDL_TLS=1 does the same. Equal at all members. kGloo, and kNccl between
  // hosts, have no encryption, and are refused with TLS.
  bool tls = false;
  // Bytes of a rank's buffer for data in transit to others. The segment has four such buffers per
  // rank.
  uint64_t slot_bytes = uint64_t{128} << 10;
  // The GPU of this member, with kNccl and kDeviceShm. -1: the GPU that the connecting thread uses.
  // In a session: the GPU that the thread of Session::open() uses.
  int device = -1;
  GpuWorlds gpu_worlds = GpuWorlds::kFresh;  // with kNccl; the same at all members
  // Returns an error to end a wait, as abort() does. The waiting thread calls it every 50 to 100 ms
  // while it waits in the store for other members, and during operations except with kGloo. Use it
  // for events that only that thread can see, such as signals in Python. Empty: no check.
  std::function<Status()> interrupt_check{};
  // Receives each rank that had joined, but that this member could not connect to over the network.
  // A failing connect_communicator() calls it, on the caller's thread. May be empty.
  std::function<void(int rank)> unreached{};
};

// Returns the IP address at which members on other hosts reach this host. It is the first of these
// that is set: `options.address`, the address of the interface or network in the environment
// variable FFDL_INTERFACE, Store::local_address(). Empty if none is set: members of one host then
// use the loopback interface.
// Errors: kInvalidArgument (no interface has that name, or an address in that network).
FFDL_API Result<std::string> own_address(const Store& store, const CommunicatorOptions& options);
// Returns the IP address at which other hosts reach this host. It is that of the interface or
// network in FFDL_INTERFACE, or else the one from which this host sends to the server
// `host`:`port`. Empty if the server is on loopback, or not known. Nothing is sent.
// Blocks: for the machine's resolver, unless `host` is an IP address.
// Errors: kInvalidArgument (no interface has that name, or an address in that network).
FFDL_API Result<std::string> own_address(std::string_view host, uint16_t port);

// Creates one communicator per rank of a world with these members, for the threads of one process.
// Backend::kLocal is the simplest one, for tests and simulations: the last rank to arrive computes
// the results of all.
FFDL_API Result<std::vector<std::unique_ptr<Communicator>>> make_local_communicators(
    uint64_t generation, std::span<const Member> members);

// Connects this process or thread to the other ranks, which find each other in `store`. Every
// member passes the same members and generation, and its own rank.
// Blocks: until all members have joined, or the deadline.
// Errors: kTimeout (names the missing members), kPeerLost (a member joined and died),
//         kInvalidArgument (not a member, options out of range, members that disagree on the back
//         end or cannot reach each other with it), kWorldChanged (another process has begun this
//         generation as this rank), kUnimplemented (not built: the message names the CMake option),
//         kExhausted (no room in /dev/shm), and those of Store.
//         With kNccl also kUnimplemented if a member has no GPU or no NCCL (its message names the
//         places that were searched), and kInvalidArgument if two members have the same GPU.
//         With kDeviceShm kInvalidArgument if members are on several hosts or more than 8,
//         kUnimplemented if a member has no GPU or cannot reach another's GPU memory, and
//         kExhausted if a GPU's memory is full.
//         Members with different member lists never meet: kTimeout.
FFDL_API Result<std::unique_ptr<Communicator>> connect_communicator(
    const World& world, Store& store, Time deadline, const CommunicatorOptions& options = {});

}  // namespace ffdl
