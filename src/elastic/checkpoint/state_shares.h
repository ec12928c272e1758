#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// The description of a tensor of a state, without its elements.
struct TensorFacts {
  std::string name;
  DType dtype = DType::kFloat32;
  uint64_t count = 0;

  bool operator==(const TensorFacts&) const = default;
};

// Elements [begin, begin + count) of a tensor.
struct Piece {
  size_t tensor = 0;
  uint64_t begin = 0;
  uint64_t count = 0;

  bool operator==(const Piece&) const = default;
};

// Describes the buffers. Their names are "state.0" and so on if none are passed. Errors:
// kInvalidArgument (not one name for each buffer, a repeated name, or one that a file cannot have).
Result<std::vector<TensorFacts>> describe_tensors(std::span<const Buffer> buffers,
                                                  std::span<const std::string> names);

// Returns the pieces that rank `rank` of `ranks` writes: an equal share of all bytes, cut before
// elements whose number is a multiple of 64. Together the shares have each element once.
std::vector<Piece> share_of(std::span<const TensorFacts> tensors, int rank, int ranks);

// Returns the name of a piece in a file: "w" for the whole tensor w, otherwise "w[64:128]".
std::string name_of(const Piece& piece, const TensorFacts& tensor);
// Returns the piece with that name, or nothing if these tensors have none. The tensors must have
// names of describe_tensors().
std::optional<Piece> piece_of(std::string_view name, std::span<const TensorFacts> tensors);

// Reports whether the pieces have each element once. Sorts them.
bool are_whole(std::span<Piece> pieces, std::span<const TensorFacts> tensors);

}  // namespace ffdl::elastic
