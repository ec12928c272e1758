#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "ffdl/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Samples that are asked of a source that is made of others, sorted by these: each is asked once,
// so that what lies together is read together, and a compressed file is unpacked once.
class AskedSamples {
 public:
  void add(size_t source, uint64_t number);

  // Adds them all to a batch, in the order of add(). `whole` is what the sources are together, as
  // an error names it.
  // Errors: those of the sources, kInvalidArgument (one gave another number of samples).
  Status read(const std::vector<std::unique_ptr<DataSource>>& sources, std::string_view whole,
              SampleBatch& batch) const;

 private:
  struct OfSource {
    std::vector<uint64_t> numbers{};
    std::vector<size_t> places{};  // among all that are asked for
  };
  std::map<size_t, OfSource> asked_{};
  size_t count_ = 0;
};

}  // namespace ffdl::data
