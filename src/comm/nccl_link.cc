#include "comm/nccl_link.h"

#include <utility>
#include <vector>

#include "base/errors.h"
#include "comm/nccl_choice.h"

namespace ffdl::comm {

using nccl::Code;

Result<std::unique_ptr<NcclLink>> NcclLink::connect(std::shared_ptr<const NcclLibrary> library,
                                                    std::span<const nccl::UniqueId> ids, int rank,
                                                    int ranks, const Pause& pause) {
  nccl::Config config;
  config.blocking = 0;
  nccl::Comm comm = nullptr;
  Code code = Code::kSuccess;
  if (ids.size() == 1) {
    code = (*library)->init_rank(&comm, ranks, ids.front(), rank, &config);
  } else {
    std::vector<nccl::UniqueId> all(ids.begin(), ids.end());
    code = (*library)->init_rank_scalable(&comm, ranks, rank, static_cast<int>(all.size()),
                                          all.data(), &config);
  }
  // Aborted where it goes wrong: NCCL makes the handle first.
  auto link = std::unique_ptr<NcclLink>(new NcclLink(std::move(library), comm));
  FFDL_RETURN_IF_ERROR(link->settle("connect over NCCL", code, pause));
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

void NcclLink::leave(const Pause& pause) {
  if (comm_ == nullptr) return;
  const Code code = (*library_)->finalize(comm_);
  if (!settle("leave NCCL", code, pause).ok()) return abort();
  static_cast<void>((*library_)->destroy(std::exchange(comm_, nullptr)));
}

void NcclLink::abort() {
  if (comm_ != nullptr) static_cast<void>((*library_)->abort(std::exchange(comm_, nullptr)));
}

}  // namespace ffdl::comm
