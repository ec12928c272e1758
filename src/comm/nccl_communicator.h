#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "comm/device_communicator.h"
#include "comm/nccl_connector.h"
#include "comm/nccl_exchange.h"

namespace ffdl::comm {

// GPUs, through NCCL. The ranks agree on each operation on their hosts before any of them gives it
// to its GPU. What NCCL cannot tell, nobody waits for: neither who has not come nor who has died.
class NcclCommunicator final : public DeviceCommunicator {
 public:
  struct Parts {
    std::unique_ptr<WatchedCommunicator> host;
    std::unique_ptr<base::DeviceSide> side;
    // Of this rank, or why it has none: the others are told.
    Result<std::shared_ptr<const NcclLibrary>> library;
    int device = -1;  // that of the thread that connects
    uint64_t stage_bytes = base::kNcclStageBytes;
    std::function<Status()> look{};
    GpuWorlds gpu_worlds = GpuWorlds::kAnew;
    // For NCCL to grow or shrink a world, which takes it about as long as to connect one. After it
    // all connect anew, also where one rank failed at once and nobody could tell the others.
    Duration derive_max = std::chrono::seconds(30);
  };
  // All members call it. Blocks until all are connected, or the deadline; with GpuWorlds::kDerived
  // their hosts alone, and their GPUs in continue_from(). Errors: kUnimplemented (a rank has no
  // NCCL or GPU: the message names it), kInvalidArgument (unlike versions or ways, two ranks with
  // one GPU), kTimeout, kPeerLost and those of `look`.
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
  // What is left of it, now that nothing runs there.
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
