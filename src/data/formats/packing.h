#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ffdl::data {

// The compression of a whole file.
enum class Packing : uint8_t { kNone, kGzip, kBzip2, kXz, kZstd, kLz4 };

// The first bytes of a file, which show its compression.
inline constexpr size_t kFirstBytes = 16;

// Detects the compression from the first kFirstBytes bytes, or from all if there are fewer. Pure.
Packing packing_of(std::span<const std::byte> begin);

// Returns the compression of a name in an index: "zstd", "zstd:7", "gz", "bz2". Returns nothing if
// it is unknown.
std::optional<Packing> packing_named(std::string_view name);

}  // namespace ffdl::data
