#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "ffdl/data/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Collects the samples to read from a source that consists of several sources. Each of these is
// read once, in one call, so that neighbours are read together and a compressed file is unpacked
// once.
class AskedSamples {
 public:
  void add(size_t source, uint64_t number);

  // Reads the samples and appends them to a batch in the order of add(). `whole` names the combined
  // source in errors.
  // Errors: those of the sources, kInvalidArgument (a source returned another number of samples).
  Status read(const std::vector<std::unique_ptr<DataSource>>& sources, std::string_view whole,
              SampleBatch& batch) const;

 private:
  struct OfSource {
    std::vector<uint64_t> numbers{};
    std::vector<size_t> places{};  // positions among all requested samples
  };
  std::map<size_t, OfSource> asked_{};
  size_t count_ = 0;
};

}  // namespace ffdl::data
