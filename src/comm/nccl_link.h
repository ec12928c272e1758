#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "comm/nccl_library.h"
#include "comm/pause.h"

namespace ffdl::comm {

// One communicator of NCCL, which never blocks: what is in progress is asked for again.
// Threads: one at a time. The GPU of the calling thread must be that which it was connected with.
class NcclLink {
 public:
  using Made = Result<std::unique_ptr<NcclLink>>;

  // All ranks give the same ids. Errors: those of `pause`, and of nccl_error().
  static Made connect(std::shared_ptr<const NcclLibrary> library,
                      std::span<const nccl::UniqueId> ids, int rank, int ranks, const Pause& pause);
  // A newcomer's part of grow().
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

  // What has become of a call that returned `code`. Waits while it is in progress.
  Status settle(std::string_view doing, nccl::Code code, const Pause& pause);
  // What NCCL has noticed since. Does not wait.
  Status check(std::string_view doing);

  // The communicator of the same ranks, in their order, and of newcomers after them: `ranks` in
  // all. Every rank calls it, nothing runs here, and `id` is that of get_grow_id(), which one of
  // them has called before; it alone gives it. Afterwards this one only ends, and has ended where
  // it went wrong. Errors: as connect().
  Result<nccl::UniqueId> get_grow_id();
  Made grow(const nccl::UniqueId* id, int ranks, const Pause& pause);
  // The communicator of all ranks but those, which do not call it. After a revoke() at any rank
  // `follows_failure` is true at all. The rest as above.
  Made shrink(std::vector<int> excluded, bool follows_failure, const Pause& pause);

  // NCCL has memory that it could give back, or could tell that it has none.
  bool can_suspend() const;
  // It is given back; every rank calls it while nothing runs here, and nothing but resume() or an
  // end comes next. NCCL waits for all that the GPU does. Errors: as connect().
  Status suspend(const Pause& pause);
  Status resume(const Pause& pause);

  // Ends what runs on the GPU, and waits for that. Only shrink() comes after it; nothing where the
  // library does not have it, or it fails, or while it is suspended: then it is an abort().
  void revoke();
  // Others that it connects do not take part in its end: leave() does not wait for them.
  void end_alone() { ends_alone_ = true; }
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
  bool is_revoked_ = false;
  bool is_suspended_ = false;
  bool ends_alone_ = false;
};

}  // namespace ffdl::comm
