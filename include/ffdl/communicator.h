#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/backend.h"
#include "ffdl/export.h"
#include "ffdl/operation.h"
#include "ffdl/shared_memory.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

// Collectives of one generation of a world. docs/decisions/0007-collectives.md says how they are
// made and what they promise.
namespace ffdl {

struct ListenerOptions;

// The members of one world, called by each of them in the same order of operations. A sum is the
// same bits at every member, on every back end and in every order of arrival: it is taken along a
// fixed tree over the ranks. Not so what kNccl adds up in the memory of GPUs: that has NCCL's own
// order, and may lose a NaN in a minimum or maximum. With kNccl and kDeviceShm the buffers of an
// operation lie in the GPU's memory, filled by what its default stream was given before the call
// or by what has been waited for, or all in the host's. docs/gpu.md has the rest.
// After the first failure it stays failed: make another, of a newer world.
// Threads: one thread at a time runs operations; abort() from any thread, at any time.
// Blocks: every operation waits for the others until its deadline; abort() until no thread reads or
//         writes the caller's buffers for this member.
// Errors: kTimeout (this member's deadline passed), kPeerLost (another died, failed or left),
//         kCancelled (aborted here), kInvalidArgument (the call itself, found before anything is
//         sent: the communicator lives on; or members that disagree: the message names both).
//         In-place outputs are undefined after an error; inputs are never changed otherwise.
class FFDL_API Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const World& world() const = 0;
  // Never kAuto. kGloo, too, where kAuto or kHierarchical finds that no two levels can be made.
  virtual Backend backend() const = 0;
  virtual Status run(const Operation& operation, Time deadline) = 0;
  // Afterwards no operation of this member can end well, and the others fail with kPeerLost.
  virtual void abort(Status why) = 0;

  // The world before this one is over, and `before` is what this member had in it; null: it comes
  // new. All members may call it, before their first operation; with GpuWorlds::kDerived they must,
  // as it connects their GPUs. Nothing of `before` runs then, nor will: its operations fail with
  // kCancelled. It stays the caller's, and may go afterwards. Errors: those of an operation and of
  // connect_communicator().
  virtual Status continue_from(Communicator* /*before*/, Time /*deadline*/) { return {}; }

  // For work of another kind on the GPUs: what this back end keeps of their memory is given back
  // until resume(). All members call both, in turns and between operations; in between those on
  // buffers in a GPU's memory are kInvalidArgument, and abort() is as ever. kNccl gives back copies
  // of lists and, with NCCL 2.29.7 or later, what NCCL itself can; others have nothing. resume()
  // comes before the communicator goes, or NCCL may keep the rest. Errors: those of an operation.
  virtual Status suspend(Time /*deadline*/) { return {}; }
  virtual Status resume(Time /*deadline*/) { return {}; }

  // From now on an all_reduce in place of one buffer that is all of `memory` may be made without a
  // copy: where every rank gives such a buffer, back ends of one host read and write them where
  // they lie. Where that cannot be (another host, user or pid namespace), nothing changes but the
  // speed. To be called between operations; forgotten when the caller drops the memory. After an
  // error the buffer is undefined, as always in place.
  virtual Status register_memory(const std::shared_ptr<SharedMemory>& /*memory*/) { return {}; }

  // From now on each member also copies its share of the result of every all_reduce into a ring in
  // shared memory, where anybody may listen (listener.h): it waits for nobody. All members call it
  // in one place of the order of operations, with the same options, as they do
  // close_to_listeners(). `store` must stay until then. Errors: those of an operation; after
  // kExhausted (no memory), kUnavailable (members cannot open each other's memory: users, pid
  // namespaces), kInvalidArgument (other options) and kUnimplemented the communicator lives on,
  // open to nobody.
  virtual Status open_to_listeners(Store& /*store*/, const ListenerOptions& /*options*/,
                                   Time /*deadline*/) {
    return Status(StatusCode::kUnimplemented, "open to listeners: this back end has none");
  }
  virtual void close_to_listeners() {}

  // In place.
  Status all_reduce(Buffer inout, ReduceOp op, Time deadline) {
    return all_reduce(std::span<const Buffer>(&inout, 1), op, deadline);
  }
  Status all_reduce(std::span<const Buffer> inout, ReduceOp op, Time deadline) {
    return run({Collective::kAllReduce, {}, inout, op}, deadline);
  }
  Status all_reduce(Buffer in, Buffer out, ReduceOp op, Time deadline) {
    return run({Collective::kAllReduce, {&in, 1}, {&out, 1}, op}, deadline);
  }
  // `in` has size() times the elements of `out`.
  Status reduce_scatter(Buffer in, Buffer out, ReduceOp op, Time deadline) {
    return run({Collective::kReduceScatter, {&in, 1}, {&out, 1}, op}, deadline);
  }
  // `out` counts at the root only.
  Status reduce(Buffer in, Buffer out, ReduceOp op, int root, Time deadline) {
    return run({Collective::kReduce, {&in, 1}, at_root(out, root), op, root}, deadline);
  }
  // `out` has size() times the elements of `in`.
  Status all_gather(Buffer in, Buffer out, Time deadline) {
    return run({Collective::kAllGather, {&in, 1}, {&out, 1}}, deadline);
  }
  Status gather(Buffer in, Buffer out, int root, Time deadline) {
    return run({Collective::kGather, {&in, 1}, at_root(out, root), {}, root}, deadline);
  }
  // The root's `inout` becomes everybody's.
  Status broadcast(Buffer inout, int root, Time deadline) {
    return run({Collective::kBroadcast, at_root(inout, root), {&inout, 1}, {}, root}, deadline);
  }
  // `in` counts at the root only.
  Status scatter(Buffer in, Buffer out, int root, Time deadline) {
    return run({Collective::kScatter, at_root(in, root), {&out, 1}, {}, root}, deadline);
  }
  Status all_to_all(Buffer in, Buffer out, Time deadline) {
    return run({Collective::kAllToAll, {&in, 1}, {&out, 1}}, deadline);
  }
  Status barrier(Time deadline) { return run({}, deadline); }

  // From one member to one other, which calls recv with as many elements of the same dtype;
  // messages of a pair arrive in their order. Ok at the sender says that all has been taken: of
  // whatever size, 0 included, send never ends before recv has begun. So two members that both send
  // first wait for each other until a deadline; let one of them receive first.
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
  Backend backend = Backend::kAuto;  // all must say the same
  // The IP address of this host at which the members on others reach it; what comes in there is
  // trusted. Empty: the loopback interface, for members that share one.
  std::string address{};
  // Of each rank, for what is on its way to the others; the segment takes four times this for each.
  uint64_t slot_bytes = uint64_t{128} << 10;
  // With kNccl and kDeviceShm: the GPU of this member. -1: the one that the connecting thread
  // uses; of a session the one that opens it.
  int device = -1;
  GpuWorlds gpu_worlds = GpuWorlds::kAnew;  // with kNccl; all must say the same
  // Where it is set, the thread that waits calls it about every 100 ms: while it looks for the
  // others in the store, and with kShm, kNccl (on one host) and kDeviceShm while it runs an
  // operation. What is not ok ends the wait, as abort() would. For what only that thread can see:
  // in Python, signals.
  std::function<Status()> look{};
};

// For the threads of one process: one communicator per rank, of a world with these members. The
// plainest of the back ends, for tests and simulations: the last rank to arrive does the work.
FFDL_API Result<std::vector<std::unique_ptr<Communicator>>> make_local_communicators(
    uint64_t generation, std::span<const Member> members);

// For processes and threads: the ranks find each other through `store`. Every member calls it with
// the same members and generation, and its own rank.
// Blocks: until all members have joined, or the deadline.
// Errors: kTimeout (names who has not come), kPeerLost (somebody came and died),
//         kInvalidArgument (no member, options out of range, members that disagree on the backend
//         or cannot reach each other by it), kWorldChanged (another process has begun this
//         generation as this rank), kUnimplemented (not built: the message names the CMake option),
//         kExhausted (no room in /dev/shm), and those of Store. With kNccl also kUnimplemented
//         where a member has no GPU or no NCCL (the message says what was looked for), and
//         kInvalidArgument where two have one GPU. With kDeviceShm kInvalidArgument where members
//         are on several hosts or more than 8, kUnimplemented where one has no GPU or does not
//         reach the memory of another's, and kExhausted where a GPU's memory is full.
//         Members that were told of different members never meet: kTimeout.
FFDL_API Result<std::unique_ptr<Communicator>> connect_communicator(
    const World& world, Store& store, Time deadline, const CommunicatorOptions& options = {});

}  // namespace ffdl
