#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::data {

// The first bytes of NumPy's .npy format: magic, version, and a Python dictionary as text. Pure.
struct NpyHeader {
  std::string dtype{};  // "<f4"
  uint64_t item_bytes = 0;
  bool fortran_order = false;
  std::vector<uint64_t> shape{};
  uint64_t data_offset = 0;
};

// Returns the size of the header, from at least the first 12 bytes of a file. Errors: kCorrupt.
Result<uint64_t> npy_header_bytes(std::string_view begin);

// Parses a whole header. Refuses headers that NumPy would not write.
// Errors: kCorrupt, kUnimplemented (an array of objects or of structures).
Result<NpyHeader> parse_npy_header(std::string_view bytes);

// Returns the bytes of one element of a dtype in NumPy's notation, or nothing if it is no plain
// dtype.
std::optional<uint64_t> npy_item_bytes(std::string_view dtype);

}  // namespace ffdl::data
