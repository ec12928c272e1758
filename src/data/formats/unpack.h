#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "data/formats/input_file.h"
#include "data/formats/packing.h"
#include "ffdl/status.h"

namespace ffdl::data {

struct UnpackLimits {
  uint64_t bytes = 0;     // limit of a file's content
  uint64_t expected = 0;  // size of the content, if known: so much is reserved
};

struct Unpacked {
  std::vector<std::byte> bytes{};
  // The reason why `bytes` end early: kCorrupt, with the file's name and the byte of the compressed
  // file. The content before it is valid.
  Status problem{};
  uint64_t unused = 0;  // bytes of the compressed file from that byte on

  // Appends a piece. Returns kExhausted beyond the limit.
  Status add(const InputFile& file, const UnpackLimits& limits, std::span<const std::byte> piece) {
    if (piece.size() > limits.bytes - bytes.size()) {
      return base::make_error(StatusCode::kExhausted,
                              "unpack '{}': it holds more than the {} bytes of "
                              "FileOptions::unpacked_bytes; raise that, or make smaller files",
                              file.path(), limits.bytes);
    }
    make_room(limits, bytes.size() + piece.size());
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  // Frees memory that the content does not use.
  void trim() {
    if (bytes.size() < bytes.capacity() / 2) bytes.shrink_to_fit();
  }
  void end(const InputFile& file, uint64_t offset, std::string_view what) {
    problem = base::make_error(
        StatusCode::kCorrupt,
        "unpack '{}': {} at byte {} of {}, after {} unpacked; replace the file, or leave out what "
        "follows with FileOptions::skip_corrupt",
        file.path(), what, offset, file.size(), bytes.size());
    unused = file.size() - offset;
  }

 private:
  // Grows the memory by copying only while at most half of the limit is used. So old and new memory
  // together never exceed the limit.
  void make_room(const UnpackLimits& limits, size_t wanted) {
    if (wanted <= bytes.capacity()) return;
    const size_t most = static_cast<size_t>(limits.bytes);
    const size_t next = 2 * wanted;
    bytes.reserve(next > most / 2 ? most : next);
  }
};

// Unpacks all streams of a compressed file, in order.
// Errors: those of reading the file; kExhausted (it holds more than the limit); kUnimplemented (a
//         build without FFDL_WITH_ARCHIVE).
// Blocks: for the disk, and to compute.
Result<Unpacked> unpack(const InputFile& file, Packing packing, const UnpackLimits& limits);

// Unpacks gzip for unpack(). libarchive does not check gzip's checksums.
Result<Unpacked> gunzip(const InputFile& file, const UnpackLimits& limits);

}  // namespace ffdl::data
