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

// A tensor of a state: what there is to say of it beside its elements.
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

// Names are "state.0" and so on where none are given. Errors: kInvalidArgument (not one name for
// each buffer, the same twice, or one that a file cannot have).
Result<std::vector<TensorFacts>> describe_tensors(std::span<const Buffer> buffers,
                                                  std::span<const std::string> names);

// What member number `rank` of `ranks` writes: of all bytes an equal share, cut between elements
// whose number is a multiple of 64. Together the shares have each element once.
std::vector<Piece> share_of(std::span<const TensorFacts> tensors, int rank, int ranks);

// How a file calls it: "w" where it is the whole tensor w, "w[64:128]" otherwise.
std::string name_of(const Piece& piece, const TensorFacts& tensor);
// Back: nothing where no piece of these tensors is called that. Its tensor must have a name of
// describe_tensors().
std::optional<Piece> piece_of(std::string_view name, std::span<const TensorFacts> tensors);

// Whether the pieces have each element once. Sorts them.
bool are_whole(std::span<Piece> pieces, std::span<const TensorFacts> tensors);

}  // namespace ffdl::elastic
