#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "comm/gpu/nccl/library.h"
#include "comm/shm/pause.h"

namespace ffdl::comm {

// One communicator of NCCL that never blocks: calls in progress are polled.
// Threads: one at a time. The GPU of the calling thread must be the one that it was connected with.
class NcclLink {
 public:
  using Made = Result<std::unique_ptr<NcclLink>>;

  // Connects. All ranks pass the same ids. Errors: those of `pause`, and of nccl_error().
  static Made connect(std::shared_ptr<const NcclLibrary> library,
                      std::span<const nccl::UniqueId> ids, int rank, int ranks, const Pause& pause);
  // Does a newcomer's part of grow().
  static Made join(std::shared_ptr<const NcclLibrary> library, const nccl::UniqueId& id, int rank,
                   int ranks, const Pause& pause);
  // Aborts, unless leave() or abort() has been called.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  const NcclLibrary& library() const { return *library_; }
  nccl::Comm comm() const { return comm_; }
  bool has_ended() const { return comm_ == nullptr; }
  bool is_revoked() const { return is_revoked_; }
  bool is_suspended() const { return is_suspended_; }

  // Returns the outcome of a call that returned `code`. Waits while it is in progress.
  Status settle(std::string_view doing, nccl::Code code, const Pause& pause);
  // Returns what NCCL has noticed since. Does not wait.
  Status check(std::string_view doing);

  // Makes the communicator of the same ranks, in their order, and of newcomers after them: `ranks`
  // in all. Every rank calls grow() while nothing runs here. One of them has called get_grow_id()
  // before, and it alone passes `id`. Afterwards this link can only end; after an error it has
  // ended.
  // Errors: as connect().
  Result<nccl::UniqueId> get_grow_id();
  Made grow(const nccl::UniqueId* id, int ranks, const Pause& pause);
  // Makes the communicator of all ranks but `excluded`, which do not call it. After a revoke() at
  // any rank, `follows_failure` is true at all. Afterwards this link can only end; after an error
  // it has ended. Errors: as connect().
  Made shrink(std::vector<int> excluded, bool follows_failure, const Pause& pause);

  // Returns whether NCCL can free memory and report its amount, even 0.
  bool can_suspend() const;
  // Frees the memory. Every rank calls it while nothing runs here, and only resume() or an end
  // follows. NCCL waits for all work of the GPU. Errors: as connect().
  Status suspend(const Pause& pause);
  Status resume(const Pause& pause);

  // Ends what runs on the GPU, and waits for that. Only shrink() may follow. It is an abort() if
  // the library lacks revoke(), if that fails, or while this link is suspended.
  void revoke();
  // Makes leave() end without the other ranks: some of them do not take part.
  void end_alone() { ends_alone_ = true; }
  // Ends the link after operations that succeeded: sent data still arrives. Waits for that as long
  // as `pause` permits. No other call may follow.
  void leave(const Pause& pause);
  // Ends what runs on the GPU. No other call may follow.
  void abort();

 private:
  NcclLink(std::shared_ptr<const NcclLibrary> library, nccl::Comm comm)
      : library_(std::move(library)), comm_(comm) {}
  Status failure(std::string_view doing, nccl::Code code) const;

  // Shared with the other links of the process: it is loaded once.
  const std::shared_ptr<const NcclLibrary> library_;
  nccl::Comm comm_;  // null: ended
  bool is_revoked_ = false;
  bool is_suspended_ = false;
  bool ends_alone_ = false;
};

}  // namespace ffdl::comm
