#include "elastic/state/page_buffer.h"

#include <sys/mman.h>

#include "base/check.h"
#include "elastic/state/file_system.h"

namespace ffdl::elastic {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

}  // namespace

void PageBuffer::reserve(uint64_t bytes) {
  if (bytes <= bytes_) return;
  const uint64_t page = bytes < kHugePageBytes ? kBlockBytes : kHugePageBytes;
  const uint64_t size = (bytes + page - 1) / page * page;
  data_.reset();
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(page, size)));
  FFDL_CHECK(data_ != nullptr, "no memory for a copy of the state");
  bytes_ = size;
  static_cast<void>(madvise(data_.get(), size, MADV_HUGEPAGE));  // if refused: small pages
}

}  // namespace ffdl::elastic
