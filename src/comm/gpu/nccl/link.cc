#include "comm/gpu/nccl/link.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/gpu/nccl/choice.h"

namespace ffdl::comm {

using nccl::Code;

namespace {

nccl::Config never_blocking() {
  nccl::Config config;
  config.blocking = 0;
  return config;
}

// Treats success as in progress: calls that derive a communicator may return it when they have
// begun.
Code begun(Code code) { return code == Code::kSuccess ? Code::kInProgress : code; }

}  // namespace

NcclLink::Made NcclLink::connect(std::shared_ptr<const NcclLibrary> library,
                                 std::span<const nccl::UniqueId> ids, int rank, int ranks,
                                 const Pause& pause) {
  nccl::Config config = never_blocking();
  nccl::Comm comm = nullptr;
  Code code = Code::kSuccess;
  if (ids.size() == 1) {
    code = (*library)->init_rank(&comm, ranks, ids.front(), rank, &config);
  } else {
    std::vector<nccl::UniqueId> all(ids.begin(), ids.end());
    code = (*library)->init_rank_scalable(&comm, ranks, rank, static_cast<int>(all.size()),
                                          all.data(), &config);
  }
  // The destructor aborts it on failure: NCCL makes the handle first.
  auto link = std::unique_ptr<NcclLink>(new NcclLink(std::move(library), comm));
  FFDL_RETURN_IF_ERROR(link->settle("connect over NCCL", code, pause));
  return link;
}

NcclLink::Made NcclLink::join(std::shared_ptr<const NcclLibrary> library, const nccl::UniqueId& id,
                              int rank, int ranks, const Pause& pause) {
  nccl::Config config = never_blocking();
  auto link = std::unique_ptr<NcclLink>(new NcclLink(std::move(library), nullptr));
  const Code code = (*link->library_)->grow(nullptr, ranks, &id, rank, &link->comm_, &config);
  FFDL_RETURN_IF_ERROR(link->settle("join a world of NCCL", begun(code), pause));
  return link;
}

NcclLink::~NcclLink() { abort(); }

Status NcclLink::settle(std::string_view doing, Code code, const Pause& pause) {
  while (code == Code::kInProgress) {
    FFDL_RETURN_IF_ERROR(pause());
    const Code asked = (*library_)->get_async_error(comm_, &code);
    if (asked != Code::kSuccess) code = asked;
  }
  return code == Code::kSuccess ? Status() : failure(doing, code);
}

Status NcclLink::check(std::string_view doing) {
  Code code = Code::kSuccess;
  const Code asked = (*library_)->get_async_error(comm_, &code);
  if (asked != Code::kSuccess) return failure(doing, asked);
  if (code == Code::kSuccess || code == Code::kInProgress) return {};
  return failure(doing, code);
}

Status NcclLink::failure(std::string_view doing, Code code) const {
  const auto text_of = [](const char* text) { return std::string_view(text ? text : ""); };
  return nccl_error(doing, code, text_of((*library_)->get_error_string(code)),
                    text_of((*library_)->get_last_error(comm_)));
}

Result<nccl::UniqueId> NcclLink::get_grow_id() {
  nccl::UniqueId id{};
  const Code code = (*library_)->get_grow_id(comm_, &id);
  if (code != Code::kSuccess) return failure("make an id to grow a world", code);
  return id;
}

NcclLink::Made NcclLink::grow(const nccl::UniqueId* id, int ranks, const Pause& pause) {
  nccl::Config config = never_blocking();
  auto grown = std::unique_ptr<NcclLink>(new NcclLink(library_, nullptr));
  const Code code = (*library_)->grow(comm_, ranks, id, -1, &grown->comm_, &config);
  Status made = grown->settle("grow a world of NCCL", begun(code), pause);
  if (made.ok()) return grown;
  // A thread of NCCL may wait for the others over this link's connections. So revoke() ends those
  // first, and they exist until `grown` has ended.
  revoke();
  grown->abort();
  abort();
  return made;
}

NcclLink::Made NcclLink::shrink(std::vector<int> excluded, bool follows_failure,
                                const Pause& pause) {
  constexpr std::string_view kDoing = "shrink a world of NCCL";
  nccl::Config config = never_blocking();
  auto shrunk = std::unique_ptr<NcclLink>(new NcclLink(library_, nullptr));
  const Code code =
      (*library_)->shrink(comm_, excluded.data(), static_cast<int>(excluded.size()), &shrunk->comm_,
                          &config, follows_failure ? nccl::kShrinkAbort : 0);
  // This link is in progress until the handle of the new one exists.
  Status made = settle(kDoing, begun(code), pause);
  if (made.ok()) made = shrunk->settle(kDoing, Code::kInProgress, pause);
  if (made.ok()) {
    end_alone();
    return shrunk;
  }
  abort();  // first: it ends the thread of NCCL that may still write the handle
  return made;
}

bool NcclLink::can_suspend() const {
  const nccl::Functions& library = library_->functions();
  if (!library.suspend || !library.resume || !library.memory_stats) return false;
  uint64_t bytes = 0;
  return library.memory_stats(comm_, nccl::MemoryStat::kSuspendable, &bytes) == Code::kSuccess;
}

Status NcclLink::suspend(const Pause& pause) {
  is_suspended_ = true;  // a part of it on failure
  return settle("free the memory of NCCL", (*library_)->suspend(comm_, nccl::kSuspendMemory),
                pause);
}

Status NcclLink::resume(const Pause& pause) {
  FFDL_RETURN_IF_ERROR(
      settle("allocate the memory of NCCL again", (*library_)->resume(comm_), pause));
  is_suspended_ = false;
  return {};
}

// Aborts a suspended link: a shrunk one would not find what it had shared with others.
void NcclLink::revoke() {
  if (comm_ == nullptr || is_revoked_) return;
  if ((*library_)->revoke == nullptr || is_suspended_) return abort();
  const Time latest = deadline_in(base::kNcclLeaveMax);
  const Code code = (*library_)->revoke(comm_, 0);
  const Status ended = settle("end the running operations", begun(code), [latest]() -> Status {
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() < latest) return {};
    return Status(StatusCode::kTimeout, "it does not end");
  });
  if (!ended.ok()) return abort();
  is_revoked_ = true;
}

// NCCL's orderly end needs all ranks of a host together.
void NcclLink::leave(const Pause& pause) {
  if (comm_ == nullptr) return;
  if (is_revoked_ || ends_alone_ || is_suspended_) return abort();
  const Code code = (*library_)->finalize(comm_);
  if (!settle("leave NCCL", code, pause).ok()) return abort();
  static_cast<void>((*library_)->destroy(std::exchange(comm_, nullptr)));
}

void NcclLink::abort() {
  if (comm_ != nullptr) static_cast<void>((*library_)->abort(std::exchange(comm_, nullptr)));
}

}  // namespace ffdl::comm
