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

// How many bytes the header has, from the first 12 of a file or more. Errors: kCorrupt.
Result<uint64_t> npy_header_bytes(std::string_view begin);

// Reads a whole header; whatever NumPy would not write is refused.
// Errors: kCorrupt, kUnimplemented (an array of objects or of structures).
Result<NpyHeader> parse_npy_header(std::string_view bytes);

// Bytes of one element, by a dtype as NumPy writes it; nothing: no plain one.
std::optional<uint64_t> npy_item_bytes(std::string_view dtype);

}  // namespace ffdl::data
