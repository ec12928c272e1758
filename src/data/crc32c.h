#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ffdl::data {

// The checksum of TFRecord: CRC-32C (Castagnoli), by the processor where it can.
uint32_t crc32c(std::span<const std::byte> bytes);
// The same by a table; it is what crc32c() is tested against.
uint32_t crc32c_by_table(std::span<const std::byte> bytes);

// As TFRecord stores it, so that a checksum over checksums is not weak.
constexpr uint32_t mask_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace ffdl::data
