#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ffdl {

// `Time`: a point in time of the monotonic clock. `Duration`: the difference of two. In a
// simulation the Runtime generates the time. Neither type is ever compared with a wall clock.
using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

// The deadline that never passes. A caller must write it explicitly to wait without a bound.
inline constexpr Time kNoDeadline = Time::max();

// Returns the time `wait` from now, for callers without a Runtime: attach(name, deadline_in(5s)).
inline Time deadline_in(Duration wait) { return std::chrono::steady_clock::now() + wait; }

// Samples [begin, end) of one partition of a data set. Positions of a partition only grow: each
// epoch continues the count of the epoch before. So a position identifies one use of one sample. A
// range may be empty (begin == end). A push whose ranges contain no sample is refused.
struct SampleRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator==(const SampleRange&) const = default;
};

// The type of a buffer's elements.
enum class DType : uint32_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

// Returns the number of bytes of one element, or 0 for a value that is not a DType.
constexpr uint64_t element_bytes(DType type) {
  switch (type) {
    case DType::kInt8:
      return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

// Returns the name in NumPy and PyTorch, such as "float32".
constexpr std::string_view to_string(DType type) {
  switch (type) {
    case DType::kInt8:
      return "int8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
  }
  return "unknown";
}

// Elements in the caller's memory, with any alignment. During a call that uses a Buffer, its memory
// must stay valid, and the caller must not touch it.
struct Buffer {
  void* data = nullptr;
  uint64_t count = 0;  // of elements
  DType dtype = DType::kFloat32;
};

// One process or thread of a job. A new life under an old id is another member, with a larger
// incarnation.
struct Member {
  std::string id{};
  uint64_t incarnation = 0;
  std::string address{};  // where other members reach it; not part of its identity

  bool operator==(const Member& other) const {
    return id == other.id && incarnation == other.incarnation;
  }
};

// The phase of a world. In kForming its members still make their states equal; in kActive all
// states are equal.
enum class Phase : uint32_t { kForming, kActive };

// The members of one generation of a job, in the order of their ranks, seen by one member.
struct World {
  uint64_t generation = 0;
  int rank = 0;  // index of this member in `members`; -1: it is not a member
  std::vector<Member> members{};
  uint64_t lineage = 0;  // counts the beginnings: a new one if no state holder is left
  Phase phase = Phase::kActive;
  // The members of the last active world. Each of them has every stable step. Empty: none of them
  // is left, and a lineage begins.
  std::vector<Member> state_holders{};
  // This world abandons the state holders' lineage. The job returns to a checkpoint or its initial
  // state.
  bool gives_up = false;
  // The job. Its members meet in the store under this name. Worlds with equal members and
  // generation in one store need different names.
  std::string job{};
  // The lineage from which this one took its first state; 0: it began otherwise.
  uint64_t continues = 0;

  // Returns true if a lineage begins: with the newest state that a member or a checkpoint has, or,
  // if the world gives up the state holders' lineage, with the newest checkpoint.
  bool begins_anew() const { return state_holders.empty() || gives_up; }
  int size() const { return static_cast<int>(members.size()); }
};

// The treatment of a gradient that contains NaN or Inf. A learner applies it before it publishes. A
// session applies it to the mean gradient of a step, before the update. The mean has the same bits
// at all members.
enum class NonFinite : uint32_t {
  kReject,  // the call fails with kInvalidArgument; nothing is committed or applied
  kSkip,    // the gradient is dropped; its samples are committed and counted as skipped
  kAccept,  // no check: saves one pass over the gradient
};

}  // namespace ffdl
