#include "elastic/state/hashed_copy.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

namespace ffdl::elastic {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr uint64_t kPieceBytes = uint64_t{16} << 10;  // stays in the first cache

// Any vector width suffices, since memory is the bottleneck. The baseline needs no dispatch.
using Bytes = hn::ScalableTag<uint8_t>;

void copy_past_caches(uint8_t* to, const uint8_t* from, size_t bytes) {
  constexpr Bytes kBytes;
  const size_t lanes = hn::Lanes(kBytes);
  const size_t before = std::min(bytes, (lanes - reinterpret_cast<uintptr_t>(to) % lanes) % lanes);
  std::memcpy(to, from, before);
  size_t at = before;
  for (; at + lanes <= bytes; at += lanes) {
    hn::Stream(hn::LoadU(kBytes, from + at), kBytes, to + at);
  }
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace

void copy_and_hash(std::byte* to, const std::byte* from, uint64_t bytes, Hash& hash) {
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const uint64_t piece = std::min(kPieceBytes, bytes - at);
    hash.add(from + at, piece);
    copy_past_caches(reinterpret_cast<uint8_t*>(to + at),
                     reinterpret_cast<const uint8_t*>(from + at), piece);
  }
  hwy::FlushStream();  // before another thread is notified
}

}  // namespace ffdl::elastic
