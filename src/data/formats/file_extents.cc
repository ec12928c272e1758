#include "data/formats/file_extents.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace ffdl::data {
namespace {

// Returns the extent that covers both.
Extent joined(const Extent& a, const Extent& b) {
  const uint64_t offset = std::min(a.offset, b.offset);
  return {offset, std::max(a.end(), b.end()) - offset};
}

bool are_near(const Extent& a, const Extent& b, uint64_t reach) {
  return a.offset <= b.end() + reach && b.offset <= a.end() + reach;
}

}  // namespace

std::vector<Extent> merged(std::vector<Extent> extents, uint64_t reach) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  std::vector<Extent> found;
  for (const Extent& extent : extents) {
    if (!found.empty() && are_near(found.back(), extent, reach)) {
      found.back() = joined(found.back(), extent);
    } else {
      found.push_back(extent);
    }
  }
  return found;
}

// Does not sort first, which would take as long as reading. Samples of one partition find the
// stretch of the sample before them.
std::vector<Extent> few_stretches(std::span<const Extent> samples) {
  std::vector<Extent> found;
  size_t at = 0;
  for (const Extent& sample : samples) {
    const auto is_near = [&](const Extent& stretch) {
      return are_near(stretch, sample, base::kStretchReachBytes);
    };
    if (at == found.size() || !is_near(found[at])) {
      at = static_cast<size_t>(std::find_if(found.begin(), found.end(), is_near) - found.begin());
    }
    if (at < found.size()) {
      found[at] = joined(found[at], sample);
    } else if (found.size() < base::kStretchesMax) {
      found.push_back(sample);
    } else {
      return {};
    }
  }
  return merged(std::move(found), base::kReadThroughBytes);
}

bool are_dense(std::span<const Extent> stretches, uint64_t bytes) {
  uint64_t read = 0;
  for (const Extent& stretch : stretches) read += stretch.bytes;
  return read <= base::kReadGapFactor * bytes + base::kScanLeapBytes;
}

}  // namespace ffdl::data
