#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ffdl::data {

// Computes the checksum of TFRecord, CRC-32C (Castagnoli), with the processor's instruction if it
// has one.
uint32_t crc32c(std::span<const std::byte> bytes);
// Computes CRC-32C by a table. Tests compare crc32c() with it.
uint32_t crc32c_by_table(std::span<const std::byte> bytes);

// Masks a checksum as TFRecord stores it, so that a checksum over checksums is not weak.
constexpr uint32_t mask_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace ffdl::data
