#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "comm/gpu/communicator.h"
#include "comm/gpu/nccl/connector.h"
#include "comm/gpu/nccl/exchange.h"

namespace ffdl::comm {

// Runs operations of GPUs through NCCL. The ranks agree on each operation on their hosts before any
// of them starts it on its GPU. NCCL cannot report a member that is missing or dead, so no rank
// waits for one there.
class NcclCommunicator final : public DeviceCommunicator {
 public:
  struct Parts {
    std::unique_ptr<WatchedCommunicator> host;
    std::unique_ptr<base::DeviceSide> side;
    // The library of this rank, or the reason why it has none, which the others learn.
    Result<std::shared_ptr<const NcclLibrary>> library;
    int device = -1;  // that of the connecting thread
    uint64_t stage_bytes = base::kNcclStageBytes;
    std::function<Status()> interrupt_check{};
    GpuWorlds gpu_worlds = GpuWorlds::kFresh;
    // Bounds the time in which NCCL grows or shrinks a world, which takes about as long as to
    // connect one. After it all ranks connect afresh. This covers a rank that failed at once and
    // could not inform the others.
    Duration derive_max = std::chrono::seconds(30);
  };
  // Connects all members: each calls it. Blocks until all are connected, or the deadline. With
  // GpuWorlds::kReuse it connects their hosts alone, and continue_from() their GPUs.
  // Errors: kUnimplemented (a rank has no NCCL or GPU: the message names it), kInvalidArgument
  //         (unlike versions or `gpu_worlds`, two ranks with one GPU), kTimeout, kPeerLost and
  //         those of `interrupt_check`.
  static Result<std::unique_ptr<Communicator>> connect(World world, Parts parts, Time deadline);
  ~NcclCommunicator() override;

  Backend backend() const override { return Backend::kNccl; }
  Status continue_from(Communicator* before, Time deadline) override;
  Status suspend(Time deadline) override;
  Status resume(Time deadline) override;

 private:
  NcclCommunicator(World world, Parts parts);
  Status open(Time deadline);
  NcclConnector connector();
  Status start(NcclLink::Made link);
  Status derive(NcclCommunicator* old, Time deadline);
  // Returns what is left of `old`, now that nothing runs there.
  NcclPast past_of(NcclCommunicator* old);
  bool has_member(const Member& member) const;
  enum class Memory : int8_t { kKept, kGivenBack };
  static std::string_view name_of(Memory to);
  Status bring(Memory to, Time deadline);
  Status bring_together(Memory to, Time deadline);

  Status check_on_device(const Request& request) const override;
  Status run_on_device(const Request& request, Time deadline) override;
  Status check_device() override { return link_->check(kOperate); }
  void give_up(const Status& why) override;

  Result<std::shared_ptr<const NcclLibrary>> library_;
  const uint64_t stage_bytes_;
  const GpuWorlds gpu_worlds_;
  const Duration derive_max_;
  std::unique_ptr<NcclExchange> exchange_;
  std::unique_ptr<NcclLink> link_;  // null: the GPUs are not connected
  Memory memory_ = Memory::kKept;
};

}  // namespace ffdl::comm
