#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "ffdl/data/data_source.h"

// Checks and sums for sources that consist of several sources.
namespace ffdl::data {

// Checks that all sources have one format. `doing` begins the error message. Errors:
// kInvalidArgument.
inline Status have_one_format(const std::vector<std::unique_ptr<DataSource>>& sources,
                              std::string_view doing) {
  for (size_t i = 1; i < sources.size(); ++i) {
    const SampleFormat first = sources[0]->format();
    const SampleFormat format = sources[i]->format();
    if (format.dtype == first.dtype && format.shape == first.shape &&
        format.is_fixed == first.is_fixed) {
      continue;
    }
    return base::invalid_argument(
        "{}: samples of source {} are {} bytes of '{}' and those of source 0 are {} of '{}'; give "
        "sources of one format",
        doing, i, format.bytes, format.dtype, first.bytes, first.dtype);
  }
  return {};
}

inline SkippedData skipped_in(const std::vector<std::unique_ptr<DataSource>>& sources) {
  SkippedData all;
  for (const auto& source : sources) {
    SkippedData one = source->skipped();
    all.samples += one.samples;
    all.bytes += one.bytes;
    if (all.first.empty()) all.first = std::move(one.first);
  }
  return all;
}

}  // namespace ffdl::data
