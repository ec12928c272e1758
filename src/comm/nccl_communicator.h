#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "comm/nccl_exchange.h"
#include "comm/operation_gate.h"
#include "comm/watched_communicator.h"

namespace ffdl::comm {

// GPUs, through NCCL. Beside it stands a communicator of the same members through their hosts'
// memory: the ranks agree there on each operation before any of them gives it to its GPU, and it
// knows who is lost. Buffers in the host's memory go through that one, too. What NCCL cannot tell,
// nobody waits for: neither who has not come nor who has died.
class NcclCommunicator final : public Communicator {
 public:
  struct Parts {
    std::unique_ptr<WatchedCommunicator> host;
    std::unique_ptr<base::DeviceSide> side;
    // Of this rank, or why it has none: the others are told.
    Result<std::shared_ptr<const NcclLibrary>> library;
    int device = -1;  // that of the thread that connects
    uint64_t stage_bytes = base::kNcclStageBytes;
    std::function<Status()> look{};
  };
  // All members call it. Blocks until all are connected, or the deadline. Errors: kUnimplemented
  // (a rank has no NCCL or GPU: the message names it), kInvalidArgument (unlike versions, two ranks
  // with one GPU), kTimeout, kPeerLost and those of `look`.
  static Result<std::unique_ptr<Communicator>> connect(World world, Parts parts, Time deadline);
  ~NcclCommunicator() override;

  const World& world() const override { return world_; }
  Backend backend() const override { return Backend::kNccl; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;
  Status register_memory(const std::shared_ptr<SharedMemory>& memory) override {
    return host_->register_memory(memory);
  }

 private:
  // How long somebody has waited.
  struct Wait {
    std::string_view doing;
    Time deadline;
    Time began;
    Time looks_for_losses;  // the next time
    Time looks;             // the next time, by look_
    // Somebody was gone at the last look. Who has left after its part sent all that is needed, so
    // that what is not done at the next one will not be.
    bool lost;
  };
  NcclCommunicator(World world, Parts parts);
  Status open(Time deadline);
  // What each rank tells before NCCL connects.
  struct Card;
  Result<std::vector<Card>> exchange_cards(const Status& mine, Time deadline);

  // Whether the operation's buffers are the GPU's. Errors: kInvalidArgument (some are), and those
  // of the device.
  Result<bool> is_on_device(const Request& request);
  Status run_on_device(const Request& request, Time deadline);
  // All ranks that take part run the same, and have come.
  Status agree(const Request& request, Time deadline);
  Status agree_with_peer(const Request& request, Time deadline);
  // The stream has done all that it was given.
  Status wait_for_stream(Time deadline);
  // A receiver tells its sender that all has been taken.
  Status confirm(const Request& request, Time deadline);
  Pause pause_until(std::string_view doing, Time deadline);
  Status pause(Wait& wait);
  // Nothing of a failed operation touches its buffers any more, and the others learn of it.
  void give_up(const Status& why);

  const World world_;
  const pid_t pid_;
  const std::unique_ptr<WatchedCommunicator> host_;
  const std::unique_ptr<base::DeviceSide> side_;
  Result<std::shared_ptr<const NcclLibrary>> library_;
  int device_;
  const uint64_t stage_bytes_;
  const std::function<Status()> look_;
  base::SideStream stream_;
  std::unique_ptr<NcclExchange> exchange_;
  std::unique_ptr<NcclLink> link_;

  std::atomic<bool> stopped_ = false;
  base::Mutex idle_mutex_;  // for idle_ alone
  base::Condition idle_;    // rung when stopped_ is set
  OperationGate gate_;
};

}  // namespace ffdl::comm
