#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "base/device_side.h"
#include "comm/operation_gate.h"
#include "comm/pause.h"
#include "comm/request.h"
#include "comm/watched_communicator.h"

namespace ffdl::comm {

// What communicators of GPUs have in common. Beside one stands a communicator of the same members
// through their hosts' memory: the ranks agree there on each operation before any gives its GPU
// what it cannot take back, and it knows who is lost. Buffers in the host's memory go through that
// one, too. Whatever a GPU does is asked for again and never waited for: with a deadline, until
// somebody aborts, and with a look at the lives of the others.
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
  // `device` -1: that of the thread that connects.
  DeviceCommunicator(World world, std::unique_ptr<WatchedCommunicator> host,
                     std::unique_ptr<base::DeviceSide> side, int device,
                     std::function<Status()> look);

  // Of an operation whose buffers are the GPU's. Before anything is sent: it can be done.
  virtual Status check_on_device(const Request& /*request*/) const { return {}; }
  // This rank's GPU is in use.
  virtual Status run_on_device(const Request& request, Time deadline) = 0;
  // What beside the stream has failed meanwhile.
  virtual Status check_device() { return {}; }
  // Nothing of a failed operation touches its buffers any more, and the others learn of it.
  virtual void give_up(const Status& why) = 0;

  // Chooses device_, and makes stream_ there.
  Status begin_on_device();
  // A fork of the member has neither its threads nor its GPU: what a destructor would give back
  // there is to be forgotten instead. Errors: kCancelled (this is one).
  Status check_process() const;

  // All ranks that take part run the same, and have come.
  Status agree(const Request& request, Time deadline);
  Status agree_with_peer(const Request& request, Time deadline);
  // Of the two of a send, the one that does `by` tells the other that it has done its part.
  Status pass_turn(const Request& request, Collective by, Time deadline);

  // The stream has done all that it was given.
  Status wait_for_stream(const Pause& pause);
  // Ends the wait at the deadline, by abort() and look_, and when a member is lost; the other one
  // not by a loss, as it is for what needs nobody else.
  Pause pause_until(std::string_view doing, Time deadline);
  Pause pause_alone_until(std::string_view doing, Time deadline);
  Status pause(Wait& wait);
  // The same for a stream that ends by itself, whatever else has failed.
  void wait_for_end_of_stream();

  const World world_;
  const pid_t pid_;
  const std::unique_ptr<WatchedCommunicator> host_;
  const std::unique_ptr<base::DeviceSide> side_;
  int device_;
  base::SideStream stream_;
  OperationGate gate_;

 private:
  // Whether the operation's buffers are the GPU's. Errors: kInvalidArgument (some are), and those
  // of the device.
  Result<bool> is_on_device(const Request& request);
  Status use_device_for(const Request& request, Time deadline);

  const std::function<Status()> look_;
  std::atomic<bool> stopped_ = false;
  base::Mutex idle_mutex_;  // for idle_ alone
  base::Condition idle_;    // rung when stopped_ is set
};

}  // namespace ffdl::comm
