#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ffdl::data {

// What a whole file is compressed with.
enum class Packing : uint8_t { kNone, kGzip, kBzip2, kXz, kZstd, kLz4 };

// Of a file, by which it is seen how it is compressed.
inline constexpr size_t kFirstBytes = 16;

// By its first bytes, so many or all that there are. Pure.
Packing packing_of(std::span<const std::byte> begin);

// By the name that an index says: "zstd", "zstd:7", "gz", "bz2"; nothing: one that we do not know.
std::optional<Packing> packing_named(std::string_view name);

}  // namespace ffdl::data
