#pragma once

#include <sys/types.h>

#include <memory>

#include "comm/network/exchange.h"
#include "comm/network/pairs.h"
#include "comm/operation/operation_gate.h"
#include "comm/operation/watched_communicator.h"

namespace ffdl::comm {

// Connects any hosts: ranks exchange messages. The links move them; the calling thread does the
// rest. After a failure run() returns when neither touches the caller's buffers any more.
class LinkedCommunicator : public WatchedCommunicator {
 public:
  // `backend`: the one that connected the links.
  LinkedCommunicator(World world, std::unique_ptr<Links> links, Backend backend);
  ~LinkedCommunicator() override;

  // Waits until all members have arrived. Called once, first. Errors: kTimeout, kPeerLost.
  Status open(Time deadline);

  const World& world() const override { return world_; }
  Backend backend() const override { return backend_; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;
  // Links report a broken connection only to a sender or receiver.
  Status look_for_losses() override { return {}; }

 protected:
  // Runs an operation that all agreed on and whose contents were not sent with the agreement.
  virtual Status run_large(const Request& request, Time deadline);
  // Runs a send or recv.
  virtual Status run_pair(const Request& request, Time deadline);
  // Ends all waits of run_large() and run_pair(), present and later. Threads: any.
  virtual void stop();
  // Ends all operations: none runs afterwards. A destructor calls it before it destroys what
  // run_large() and run_pair() need.
  void end(Status why);
  LinkExchange& exchange() { return exchange_; }

 private:
  Status execute(const Request& request, Time deadline);

  const World world_;
  const Backend backend_;
  const pid_t pid_;
  const std::unique_ptr<Links> links_;
  LinkAgreement agreement_;
  LinkExchange exchange_;
  LinkPairs pairs_;

  OperationGate gate_;
};

}  // namespace ffdl::comm
