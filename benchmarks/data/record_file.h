#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ffdl/status.h"

namespace ffdl::bench {

// The record size, and the numbers of records in the file, in a partition and in a step.
struct Shape {
  uint64_t records = 0;
  uint64_t record_bytes = 0;
  uint64_t partition = 0;
  uint64_t batch = 0;
};

inline constexpr Shape kSmall = {200'000, 256, 4096, 256};
inline constexpr Shape kLarge = {20'000, 100'000, 64, 32};

inline Shape tiny(Shape shape) {
  shape.records /= 100;
  return shape;
}

// A file of records in a folder of its own, and a copy in memory for the limits.
class RecordFile {
 public:
  static Result<std::unique_ptr<RecordFile>> make(const Shape& shape);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const Shape& shape() const { return shape_; }
  std::string path() const { return folder_ + "/records"; }
  std::span<const std::byte> bytes() const { return map_; }
  // Removes the file from the system's memory, so that the disk is read again. Returns false if
  // that is not possible, as on tmpfs.
  bool evict();

 private:
  RecordFile(std::string folder, const Shape& shape) : folder_(std::move(folder)), shape_(shape) {}
  Status fill();

  const std::string folder_;
  const Shape shape_;
  std::span<const std::byte> map_{};
};

}  // namespace ffdl::bench
