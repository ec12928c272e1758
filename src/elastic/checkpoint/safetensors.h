#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "ffdl/types.h"

// Encodes and parses the head of a safetensors file (github.com/huggingface/safetensors). The file
// begins with eight bytes for the length of the text. Then follow a JSON object with the place of
// each tensor, and the tensors' bytes, in order.
namespace ffdl::elastic {

// A tensor of a file. Tensors that ffdl writes have one dimension.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // offset of its bytes from the end of the head
  uint64_t end = 0;

  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHead {
  std::vector<TensorEntry> tensors;             // in the order of their bytes
  std::map<std::string, std::string> metadata;  // under "__metadata__"

  bool operator==(const SafetensorsHead&) const = default;
};

inline constexpr uint64_t kHeadLengthBytes = 8;

// Encodes the head, with its length in front and spaces at its end, so that the tensors begin at a
// multiple of kBlockBytes.
std::string encode(const SafetensorsHead& head);

// Returns the length of the text after the first eight bytes of a file of `file_bytes`.
// Errors of both parsers: kCorrupt, with the byte of the file that is wrong.
Result<uint64_t> parse_head_length(std::string_view first_bytes, uint64_t file_bytes);
// Parses the text after those bytes. The tensors must fill the `data_bytes` after it without a gap
// or an overlap. Errors: also kUnimplemented (a dtype that ffdl does not have).
Result<SafetensorsHead> parse_head(std::string_view text, uint64_t data_bytes);

}  // namespace ffdl::elastic
