#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "comm/nccl_library.h"

namespace ffdl::comm {

// Called between two looks at something that is not over. What is not ok ends the wait.
using Pause = std::function<Status()>;

// One communicator of NCCL, which never blocks: what is in progress is asked for again.
// Threads: one at a time. The GPU of the calling thread must be that which it was connected with.
class NcclLink {
 public:
  // All ranks give the same ids. Errors: those of `pause`, and of nccl_error().
  static Result<std::unique_ptr<NcclLink>> connect(std::shared_ptr<const NcclLibrary> library,
                                                   std::span<const nccl::UniqueId> ids, int rank,
                                                   int ranks, const Pause& pause);
  // Aborts, unless leave() or abort() has been called.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  const NcclLibrary& library() const { return *library_; }
  nccl::Comm comm() const { return comm_; }

  // What has become of a call that returned `code`. Waits while it is in progress.
  Status settle(std::string_view doing, nccl::Code code, const Pause& pause);
  // What NCCL has noticed since. Does not wait.
  Status check(std::string_view doing);

  // All that ran has ended well: what is on its way still arrives. Waits for that as long as
  // `pause` likes. Nothing else is called afterwards.
  void leave(const Pause& pause);
  // Ends what runs on the GPU. Nothing else is called afterwards.
  void abort();

 private:
  NcclLink(std::shared_ptr<const NcclLibrary> library, nccl::Comm comm)
      : library_(std::move(library)), comm_(comm) {}
  Status failure(std::string_view doing, nccl::Code code) const;

  // Shared with the other links of the process: it is loaded once.
  const std::shared_ptr<const NcclLibrary> library_;
  nccl::Comm comm_;  // null: ended
};

}  // namespace ffdl::comm
