#include "elastic/checkpoint/state_shares.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "base/errors.h"

namespace ffdl::elastic {
namespace {

constexpr uint64_t kCutElements = 64;  // keeps the pieces aligned

// A position between two elements: before `element` of `tensor`.
struct Cut {
  size_t tensor = 0;
  uint64_t element = 0;
};

Cut cut_before(std::span<const TensorFacts> tensors, uint64_t byte) {
  Cut cut;
  for (; cut.tensor < tensors.size(); ++cut.tensor) {
    const TensorFacts& one = tensors[cut.tensor];
    const uint64_t bytes = one.count * element_bytes(one.dtype);
    if (byte < bytes) {
      cut.element = byte / element_bytes(one.dtype) / kCutElements * kCutElements;
      return cut;
    }
    byte -= bytes;
  }
  return cut;
}

// Computes bytes * rank / ranks without overflow: 2^48 elements of 8 bytes and 256 ranks are less
// than 2^64.
uint64_t part_of(uint64_t bytes, int rank, int ranks) {
  const auto n = static_cast<uint64_t>(ranks);
  const auto k = static_cast<uint64_t>(rank);
  return bytes / n * k + bytes % n * k / n;
}

}  // namespace

Result<std::vector<TensorFacts>> describe_tensors(std::span<const Buffer> buffers,
                                                  std::span<const std::string> names) {
  if (!names.empty() && names.size() != buffers.size()) {
    return base::invalid_argument(
        "name the tensors of a checkpoint: {} names for {} tensors; give one name for each tensor",
        names.size(), buffers.size());
  }
  std::vector<TensorFacts> tensors;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < buffers.size(); ++i) {
    tensors.push_back({names.empty() ? fmt::format("state.{}", i) : names[i], buffers[i].dtype,
                       buffers[i].count});
  }
  for (const TensorFacts& tensor : tensors) {
    const bool is_free = seen.insert(tensor.name).second;
    const bool is_plain =
        !tensor.name.empty() && std::all_of(tensor.name.begin(), tensor.name.end(),
                                            [](char c) { return c > ' ' && c <= '~'; });
    if (is_free && is_plain && !tensor.name.starts_with("ffdl.") &&
        !tensor.name.starts_with("__") && !tensor.name.ends_with("]")) {
      continue;
    }
    return base::invalid_argument(
        "name the tensors of a checkpoint '{}': the name is invalid, or another tensor has it; use "
        "unique names, in printable ASCII without spaces, that do not begin with 'ffdl.' or '__' "
        "nor end with ']'",
        tensor.name);
  }
  return tensors;
}

std::vector<Piece> share_of(std::span<const TensorFacts> tensors, int rank, int ranks) {
  uint64_t bytes = 0;
  for (const TensorFacts& one : tensors) bytes += one.count * element_bytes(one.dtype);
  const Cut first = cut_before(tensors, part_of(bytes, rank, ranks));
  const Cut last = rank + 1 == ranks ? Cut{tensors.size(), 0}
                                     : cut_before(tensors, part_of(bytes, rank + 1, ranks));
  std::vector<Piece> pieces;
  for (size_t i = first.tensor; i < tensors.size() && i <= last.tensor; ++i) {
    const uint64_t begin = i == first.tensor ? first.element : 0;
    const uint64_t end = i == last.tensor ? last.element : tensors[i].count;
    if (begin < end) pieces.push_back({i, begin, end - begin});
  }
  return pieces;
}

std::string name_of(const Piece& piece, const TensorFacts& tensor) {
  if (piece.count == tensor.count) return tensor.name;
  return fmt::format("{}[{}:{}]", tensor.name, piece.begin, piece.begin + piece.count);
}

std::optional<Piece> piece_of(std::string_view name, std::span<const TensorFacts> tensors) {
  Piece piece;
  const size_t bracket = name.ends_with("]") ? name.rfind('[') : name.npos;
  const std::string_view whole = name.substr(0, bracket);
  const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                   [&](const TensorFacts& one) { return one.name == whole; });
  if (tensor == tensors.end()) return {};
  piece.tensor = static_cast<size_t>(tensor - tensors.begin());
  piece.count = tensor->count;
  if (bracket == name.npos) return piece;
  uint64_t end = 0;
  const char* const last = name.data() + name.size() - 1;
  const auto from = std::from_chars(name.data() + bracket + 1, last, piece.begin);
  if (from.ec != std::errc() || from.ptr == last || *from.ptr != ':') return {};
  const auto to = std::from_chars(from.ptr + 1, last, end);
  if (to.ec != std::errc() || to.ptr != last) return {};
  if (piece.begin >= end || end > tensor->count) return {};
  piece.count = end - piece.begin;
  return piece;
}

bool are_whole(std::span<Piece> pieces, std::span<const TensorFacts> tensors) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tuple(a.tensor, a.begin, a.count) < std::tuple(b.tensor, b.begin, b.count);
  });
  size_t next = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    uint64_t element = 0;
    for (; next < pieces.size() && pieces[next].tensor == i; ++next) {
      if (pieces[next].begin != element) return false;
      element += pieces[next].count;
    }
    if (element != tensors[i].count) return false;
  }
  return next == pieces.size();
}

}  // namespace ffdl::elastic
