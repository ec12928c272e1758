#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/device_side.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutex.h"
#include "ffdl/data/sample_batch.h"

namespace ffdl {

class PinnedMemory::Impl {
 public:
  explicit Impl(base::DeviceSide* devices) {
    auto chosen = base::choose_gpu(-1, devices);
    if (chosen.ok()) {
      chosen_ = std::move(chosen).value();
    } else {
      say_not_pinned(chosen.status());
    }
  }

  std::span<std::byte> allocate(size_t bytes) {
    constexpr size_t kPage = 4096;
    const size_t size = (std::max(bytes, base::kPinnedBytesMin) + kPage - 1) / kPage * kPage;
    auto* const pages = static_cast<std::byte*>(std::aligned_alloc(kPage, size));
    FFDL_CHECK(pages != nullptr, "no memory for samples");
    if (not_pinned().empty()) pin({pages, size});
    return {pages, size};
  }

  void give_back(std::span<std::byte> memory) {
    unpin(memory.data());
    std::free(memory.data());
  }

  uint64_t pinned_bytes() const {
    const base::MutexLock lock(mutex_);
    return pinned_bytes_;
  }

  std::string not_pinned() const {
    const base::MutexLock lock(mutex_);
    return not_pinned_;
  }

 private:
  struct Pin {
    base::SidePin pin{};
    size_t bytes = 0;
  };

  // Logs the reason once, even if several threads fail at the same time.
  void say_not_pinned(const Status& why) {
    {
      const base::MutexLock lock(mutex_);
      if (!not_pinned_.empty()) return;
      not_pinned_ = why.message();
    }
    base::log_warning(
        "samples are read into memory that is not pinned, from which copies to a GPU are slower: "
        "{}",
        why.message());
  }

  void pin(std::span<std::byte> pages) {
    const base::Gpu& gpu = chosen_.gpu;
    const base::DeviceUse use(*gpu.side, gpu.number);
    auto pinned = [&]() -> Result<base::SidePin> {
      FFDL_RETURN_IF_ERROR(use.status());
      return gpu.side->pin(pages.data(), pages.size());
    }();
    if (!pinned.ok()) return say_not_pinned(pinned.status());
    const base::MutexLock lock(mutex_);
    pins_[pages.data()] = {std::move(pinned).value(), pages.size()};
    pinned_bytes_ += pages.size();
  }

  void unpin(const std::byte* pages) {
    Pin gone;
    {
      const base::MutexLock lock(mutex_);
      const auto found = pins_.find(pages);
      if (found == pins_.end()) return;
      gone = std::move(found->second);
      pins_.erase(found);
      pinned_bytes_ -= gone.bytes;
    }
    // Selects the GPU that pinned it: unpinning on another GPU would use that one.
    const base::DeviceUse use(*chosen_.gpu.side, chosen_.gpu.number);
    gone.pin.reset();
  }

  base::ChosenGpu chosen_{};
  mutable base::Mutex mutex_;
  std::map<const std::byte*, Pin> pins_ FFDL_GUARDED_BY(mutex_);  // by first byte
  uint64_t pinned_bytes_ FFDL_GUARDED_BY(mutex_) = 0;
  std::string not_pinned_ FFDL_GUARDED_BY(mutex_);
};

PinnedMemory::PinnedMemory(base::DeviceSide* devices) : impl_(std::make_unique<Impl>(devices)) {}
PinnedMemory::~PinnedMemory() = default;

std::span<std::byte> PinnedMemory::allocate(size_t bytes) { return impl_->allocate(bytes); }
void PinnedMemory::give_back(std::span<std::byte> memory) { impl_->give_back(memory); }
uint64_t PinnedMemory::pinned_bytes() const { return impl_->pinned_bytes(); }
std::string PinnedMemory::not_pinned() const { return impl_->not_pinned(); }

}  // namespace ffdl
