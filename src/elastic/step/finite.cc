#include "elastic/step/finite.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half_kernels.h"
#include "elastic/step/element_blocks.h"

namespace ffdl::elastic {
namespace {

// Returns the exponent bits of a floating type. All of them are set in NaN and Inf, and only there.
constexpr uint64_t exponent_of(DType type) {
  switch (type) {
    case DType::kFloat16:
      return 0x7c00;
    case DType::kBFloat16:
      return 0x7f80;
    case DType::kFloat64:
      return 0x7ff0'0000'0000'0000;
    default:
      return 0x7f80'0000;
  }
}

// Reports whether a block has a NaN or an infinity. Adding the lowest exponent bit carries into the
// sign bit only if all exponent bits are set. This takes one addition and one "or" per element, in
// wide registers.
template <class Word>
bool has_non_finite(const std::array<Word, kBlock>& block, Word exponent) {
  constexpr size_t kLanes = 64 / sizeof(Word);
  const auto lowest = static_cast<Word>(exponent & (~exponent + 1));
  std::array<Word, kLanes> seen{};
  for (size_t i = 0; i < kBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      seen[lane] |= static_cast<Word>((block[i + lane] & exponent) + lowest);
    }
  }
  Word any = 0;
  for (const Word one : seen) any |= one;
  return (any >> (8 * sizeof(Word) - 1)) != 0;
}

template <class Word>
std::optional<uint64_t> find(const Buffer& buffer) {
  const auto exponent = static_cast<Word>(exponent_of(buffer.dtype));
  const auto* bytes = static_cast<const std::byte*>(buffer.data);
  std::array<Word, kBlock> block;
  for (uint64_t begin = 0; begin < buffer.count; begin += kBlock) {
    const uint64_t count = std::min(kBlock, buffer.count - begin);
    if (count < kBlock) block.fill(0);
    std::memcpy(block.data(), bytes + begin * sizeof(Word), count * sizeof(Word));
    if (!has_non_finite(block, exponent)) continue;
    for (uint64_t i = 0; i < count; ++i) {
      if ((block[i] & exponent) == exponent) return begin + i;
    }
  }
  return std::nullopt;
}

double value_at(const Buffer& buffer, uint64_t element) {
  const auto* at =
      static_cast<const std::byte*>(buffer.data) + element * element_bytes(buffer.dtype);
  if (buffer.dtype == DType::kFloat64) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  float value = 0;
  if (buffer.dtype == DType::kFloat32) {
    std::memcpy(&value, at, sizeof value);
  } else {
    uint16_t narrow = 0;
    std::memcpy(&narrow, at, sizeof narrow);
    base::widen(buffer.dtype, &narrow, &value, 1);
  }
  return value;
}

}  // namespace

std::optional<uint64_t> find_non_finite(const Buffer& buffer) {
  switch (element_bytes(buffer.dtype)) {
    case 2:
      return find<uint16_t>(buffer);
    case 4:
      return find<uint32_t>(buffer);
    default:
      return find<uint64_t>(buffer);
  }
}

// Reports whether an element may be non-finite. A sum of squares of float64 may be infinite
// although no element is.
Result<bool> FiniteSearch::may_have_one(std::span<const Buffer> gradients) {
  if (!gpu_) return true;
  if (!norm_) {
    FFDL_ASSIGN_OR_RETURN(auto norm, DeviceNorm::create(gpu_));
    norm_.emplace(std::move(norm));
  }
  FFDL_ASSIGN_OR_RETURN(const double sum, norm_->squared_norm(gradients));
  return !std::isfinite(sum);
}

Result<std::optional<NonFiniteElement>> FiniteSearch::find(std::span<const Buffer> gradients,
                                                           UserMemory& memory) {
  std::optional<NonFiniteElement> found;
  FFDL_ASSIGN_OR_RETURN(const bool must_look, may_have_one(gradients));
  if (!must_look) return found;
  for (size_t i = 0; i < gradients.size() && !found; ++i) {
    uint64_t begin = 0;
    FFDL_RETURN_IF_ERROR(
        memory.visit({&gradients[i], 1}, Access::kRead, [&](const Buffer& piece) -> Status {
          const auto at = found ? std::nullopt : find_non_finite(piece);
          if (at) found = NonFiniteElement{i, begin + *at, value_at(piece, *at)};
          begin += piece.count;
          return {};
        }));
  }
  return found;
}

}  // namespace ffdl::elastic
