#pragma once

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <vector>

#include "support/forwarding_store.h"

namespace ffdl::testing {

// The access of one member to a shared store. After a cut its calls hang until restore(), as a
// network call with a far deadline does, or fail at once.
class CutStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  enum class Way { kOpen, kHangs, kRefuses };
  void cut(Way way) {
    const std::lock_guard lock(mutex_);
    way_ = way;
    changed_.notify_all();
  }
  void restore() { cut(Way::kOpen); }

  Result<Entry> get(std::string_view key) override {
    FFDL_RETURN_IF_ERROR(pass());
    return inner_.get(key);
  }
  Result<std::vector<Entry>> list(std::string_view prefix) override {
    FFDL_RETURN_IF_ERROR(pass());
    return inner_.list(prefix);
  }
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override {
    FFDL_RETURN_IF_ERROR(pass());
    return inner_.wait_change(prefix, after, deadline);
  }
  Status keep_alive(LeaseId lease) override {
    FFDL_RETURN_IF_ERROR(pass());
    return inner_.keep_alive(lease);
  }

 private:
  Status pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return way_ != Way::kHangs; });
    if (way_ == Way::kOpen) return {};
    return Status(StatusCode::kUnavailable, "the test has cut this member off");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Way way_ = Way::kOpen;
};

}  // namespace ffdl::testing
