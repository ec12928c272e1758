#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "ffdl/types.h"

// The head of a safetensors file (github.com/huggingface/safetensors): eight bytes with the length
// of the text that follows, a JSON object that says where each tensor lies, and then their bytes,
// one tensor after the other.
namespace ffdl::elastic {

// A tensor of a file. Those that ffdl writes have one dimension.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // of its bytes, from the end of the head
  uint64_t end = 0;

  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHead {
  std::vector<TensorEntry> tensors;             // in the order of their bytes
  std::map<std::string, std::string> metadata;  // under "__metadata__"

  bool operator==(const SafetensorsHead&) const = default;
};

inline constexpr uint64_t kHeadLengthBytes = 8;

// With its length in front, and spaces at its end, so that the bytes of the tensors begin at a
// multiple of 64.
std::string encode(const SafetensorsHead& head);

// The length of the text after the first eight bytes of a file with so many bytes.
// Errors: kCorrupt, with the byte of the file where it is wrong. So all below.
Result<uint64_t> parse_head_length(std::string_view first_bytes, uint64_t file_bytes);
// `text` comes after those, and `data_bytes` after it: which the tensors fill, without a gap and
// without an overlap. Errors: also kUnimplemented (a dtype that ffdl does not have).
Result<SafetensorsHead> parse_head(std::string_view text, uint64_t data_bytes);

}  // namespace ffdl::elastic
