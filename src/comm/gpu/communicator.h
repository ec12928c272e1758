#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "base/device_side.h"
#include "comm/operation/operation_gate.h"
#include "comm/operation/request.h"
#include "comm/operation/watched_communicator.h"
#include "comm/shm/pause.h"

namespace ffdl::comm {

// The common part of communicators of GPUs. It has a communicator of the same members through their
// hosts' memory. There the ranks agree on each operation before any rank starts what its GPU cannot
// take back, and there losses are found. Buffers in the host's memory also go through it. GPUs are
// polled, never waited for. Polling ends at the deadline, by an abort, or by the loss of a member.
class DeviceCommunicator : public Communicator {
 public:
  ~DeviceCommunicator() override;

  const World& world() const override { return world_; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;
  Status register_memory(const std::shared_ptr<SharedMemory>& memory) override {
    return host_->register_memory(memory);
  }

 protected:
  // The state of one wait.
  struct Wait {
    std::string_view doing;
    Time deadline;
    Time began;
    Time looks_for_losses;  // the next time
    Time looks;             // the next time, by look_
    // A member was gone at the last check. A member that leaves in order has sent all that is
    // needed before. So what is not done at the next check never will be.
    bool lost;
  };
  // `device` -1: the GPU of the connecting thread.
  DeviceCommunicator(World world, std::unique_ptr<WatchedCommunicator> host,
                     std::unique_ptr<base::DeviceSide> side, int device,
                     std::function<Status()> interrupt_check);

  // Checks, before anything is sent, that an operation on the GPU's buffers is possible.
  virtual Status check_on_device(const Request& /*request*/) const { return {}; }
  // Runs the operation while this rank's GPU is in use.
  virtual Status run_on_device(const Request& request, Time deadline) = 0;
  // Returns a failure outside the stream, if there is one.
  virtual Status check_device() { return {}; }
  // Ends a failed operation: nothing touches its buffers any more, and the others learn of it.
  virtual void give_up(const Status& why) = 0;

  // Chooses device_, and makes stream_ there.
  Status begin_on_device();
  // Checks that this process is the member. A fork has neither its threads nor its GPU. There a
  // destructor forgets what it would release. Errors: kCancelled (this is a fork).
  Status check_process() const;

  // Waits until all ranks that take part have arrived, and checks that they run the same.
  Status agree(const Request& request, Time deadline);
  Status agree_with_peer(const Request& request, Time deadline);
  // Tells the peer of a send or recv that this rank has done its part, if it is the one that does
  // `by`. Otherwise waits for that message.
  Status pass_turn(const Request& request, Collective by, Time deadline);

  // Waits until the stream has done all its work.
  Status wait_for_stream(const Pause& pause);
  // Returns a pause that ends the wait at the deadline, by abort() or look_, or when a member is
  // lost. pause_alone_until() ignores losses, for work that needs no other member.
  Pause pause_until(std::string_view doing, Time deadline);
  Pause pause_alone_until(std::string_view doing, Time deadline);
  Status pause(Wait& wait);
  // Waits for a stream that ends by itself, whatever else has failed.
  void wait_for_end_of_stream();

  const World world_;
  const pid_t pid_;
  const std::unique_ptr<WatchedCommunicator> host_;
  const std::unique_ptr<base::DeviceSide> side_;
  int device_;
  base::SideStream stream_;
  OperationGate gate_;

 private:
  // Returns whether the buffers are in the GPU's memory. Errors: kInvalidArgument (only some are),
  // and those of the device.
  Result<bool> is_on_device(const Request& request);
  Status use_device_for(const Request& request, Time deadline);

  const std::function<Status()> look_;
  std::atomic<bool> stopped_ = false;
  base::Mutex idle_mutex_;  // for idle_ alone
  base::Condition idle_;    // notified when stopped_ is set
};

}  // namespace ffdl::comm
