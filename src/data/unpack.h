#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "data/input_file.h"
#include "data/packing.h"
#include "ffdl/status.h"

namespace ffdl::data {

struct UnpackLimits {
  uint64_t bytes = 0;     // that a file may hold
  uint64_t expected = 0;  // what it does hold, if that is known: so much is reserved
};

struct Unpacked {
  std::vector<std::byte> bytes{};
  // Why they end before the file does, kCorrupt with its name and the byte of the compressed file:
  // what came before is there.
  Status problem{};
  uint64_t unused = 0;  // bytes of the compressed file from there on

  // More than `limits` says is an error.
  Status add(const InputFile& file, const UnpackLimits& limits, std::span<const std::byte> piece) {
    if (piece.size() > limits.bytes - bytes.size()) {
      return base::make_error(StatusCode::kExhausted,
                              "unpack '{}': it holds more than the {} bytes of "
                              "FileOptions::unpacked_bytes; raise that, or make smaller files",
                              file.path(), limits.bytes);
    }
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  void end(const InputFile& file, uint64_t offset, std::string_view what) {
    problem = base::make_error(
        StatusCode::kCorrupt,
        "unpack '{}': {} at byte {} of {}, after {} unpacked; replace the file, or leave out what "
        "follows with OnCorrupt::kSkip",
        file.path(), what, offset, file.size(), bytes.size());
    unused = file.size() - offset;
  }
};

// All that a compressed file holds: its streams, one after the other.
// Errors: those of reading the file; kExhausted (it holds more than the limit); kUnimplemented (a
//         build without FFDL_WITH_ARCHIVE).
// Blocks: for the disk, and to compute.
Result<Unpacked> unpack(const InputFile& file, Packing packing, const UnpackLimits& limits);

// The part of it that is for gzip, whose checksums libarchive does not look at.
Result<Unpacked> gunzip(const InputFile& file, const UnpackLimits& limits);

}  // namespace ffdl::data
