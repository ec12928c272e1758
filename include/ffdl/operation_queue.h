#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ffdl/communicator.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

// Runs operations of one communicator beside compute, one after another in the order in which they
// were started; all ranks must start them in the same order. While a queue is there, nobody else
// runs operations of its communicator.
//   auto first = queue.start({.kind = Collective::kAllReduce, .out = layer_2}, deadline);
//   compute_gradients_of(layer_1);
//   Status status = queue.wait(*first);
// Threads: all methods from any thread; the order is that in which start() is entered.
// Owns: one thread, "ffdl-collective". Borrows the communicator, which must outlive it. The
//       destructor aborts the communicator if an operation has not ended.
// Blocks: wait() until the operation has ended, which its own deadline bounds; done() until the
//         one it is given; start() never.
// Errors: kExhausted (start: too many that nobody has waited for), kNotFound (wait: no such
//         operation, or waited for already), and those of Communicator.
class FFDL_API OperationQueue {
 public:
  using Ticket = uint64_t;

  explicit OperationQueue(Communicator& communicator, size_t operations_max = 1024);
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // The lists of buffers are copied; what the buffers point at must stay until wait() returns.
  Result<Ticket> start(const Operation& operation, Time deadline);
  // Whether it has ended; waits for that until `deadline`, which without one has passed.
  bool done(Ticket ticket, Time deadline = {});
  // What came of it. Each ticket counts once.
  Status wait(Ticket ticket);

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
