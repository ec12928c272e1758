#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ffdl/comm/communicator.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

// Runs operations of one communicator beside computation, one by one in the order of start(). All
// ranks must start them in the same order. While a queue exists, no other code may run
// operations of its communicator.
//   auto first = queue.start({.kind = Collective::kAllReduce, .out = layer_2}, deadline);
//   compute_gradients_of(layer_1);
//   Status status = queue.wait(*first);
// Threads: all methods from any thread; the order is that in which start() is entered.
// Owns: one thread, "ffdl-collective". Borrows the communicator, which must outlive it. The
//       destructor aborts the communicator if an operation has not ended.
// Blocks: wait() until the operation has ended, at most until that one's deadline; done() until
//         its own deadline; start() never.
// Errors: kExhausted (start: too many operations not waited for), kNotFound (wait: no such
//         operation, or already waited for), and those of Communicator.
class FFDL_API OperationQueue {
 public:
  using Ticket = uint64_t;

  explicit OperationQueue(Communicator& communicator, size_t operations_max = 1024);
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // Queues an operation. Copies the lists of buffers; their memory must stay until wait() returns.
  Result<Ticket> start(const Operation& operation, Time deadline);
  // Returns true once the operation has ended. Waits until `deadline`; by default it does not wait.
  bool done(Ticket ticket, Time deadline = {});
  // Waits for an operation and returns its outcome. Accepts each ticket once.
  Status wait(Ticket ticket);

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
