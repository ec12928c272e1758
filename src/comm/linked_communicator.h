#pragma once

#include <sys/types.h>

#include <memory>

#include "comm/link_exchange.h"
#include "comm/link_pairs.h"
#include "comm/operation_gate.h"
#include "comm/watched_communicator.h"

namespace ffdl::comm {

// Any hosts: ranks send each other messages. The links move them, the thread that calls does the
// rest; after a failure it comes back when neither touches the caller's buffers.
class LinkedCommunicator : public WatchedCommunicator {
 public:
  LinkedCommunicator(World world, std::unique_ptr<Links> links);
  ~LinkedCommunicator() override;

  // All members have come. To be called once, first. Errors: kTimeout, kPeerLost.
  Status open(Time deadline);

  const World& world() const override { return world_; }
  Backend backend() const override { return Backend::kGloo; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;
  // gloo tells of a broken connection only who sends or receives.
  Status look_for_losses() override { return {}; }

 protected:
  // An operation that all agreed on and whose contents did not come along.
  virtual Status run_large(const Request& request, Time deadline);
  // A send or recv.
  virtual Status run_pair(const Request& request, Time deadline);
  // From now on nothing that those two wait for goes on waiting. From any thread.
  virtual void stop();
  // Nothing runs afterwards. A destructor says so before what those two need is gone.
  void end(Status why);
  LinkExchange& exchange() { return exchange_; }

 private:
  Status execute(const Request& request, Time deadline);

  const World world_;
  const pid_t pid_;
  const std::unique_ptr<Links> links_;
  LinkAgreement agreement_;
  LinkExchange exchange_;
  LinkPairs pairs_;

  OperationGate gate_;
};

}  // namespace ffdl::comm
