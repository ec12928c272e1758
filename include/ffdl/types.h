#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ffdl {

// A point in time of the monotonic clock, and a difference of two. In a simulation the Runtime
// makes them up; nothing compares them with a wall clock.
using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

// The deadline that never comes; a caller must write it out to wait without a bound.
inline constexpr Time kNoDeadline = Time::max();

// A deadline from now on, for callers without a Runtime: attach(name, deadline_in(5s)).
inline Time deadline_in(Duration wait) { return std::chrono::steady_clock::now() + wait; }

// Samples [begin, end) of one partition of a data set. Positions of a partition only grow: a second
// epoch goes on counting where the first ended, so a position names one use of one sample.
// An empty range (begin == end) says that a gradient names no samples.
struct SampleRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator==(const SampleRange&) const = default;
};

// What the elements of a buffer are.
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

// Bytes of one element; 0 for a number that is no DType.
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

// "float32", as NumPy and PyTorch say it.
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

// Elements in the caller's memory, at any address. The caller keeps them alive and untouched while
// a call that was given them runs.
struct Buffer {
  void* data = nullptr;
  uint64_t count = 0;  // of elements
  DType dtype = DType::kFloat32;
};

// One process or thread of a job. A new life under an old id has a larger incarnation: who was `id`
// before is somebody else.
struct Member {
  std::string id{};
  uint64_t incarnation = 0;
  std::string address{};  // where others reach it; says nothing about who it is

  bool operator==(const Member& other) const {
    return id == other.id && incarnation == other.incarnation;
  }
};

// How far a world is: its members may still be bringing their states together, or all have.
enum class Phase : uint32_t { kForming, kActive };

// The members of one generation of a job, in the order of their ranks, as one of them sees it.
struct World {
  uint64_t generation = 0;
  int rank = 0;  // of this member: its index in `members`; -1: it is not one of them
  std::vector<Member> members{};
  uint64_t lineage = 0;  // counts how often the job began anew, from nothing or from a checkpoint
  Phase phase = Phase::kActive;
  // Members of the last world that was active: each has every step that is settled. None: nobody
  // holds the state.
  std::vector<Member> carriers{};
  // They do, but of a lineage that is given up by this world: the job goes back.
  bool gives_up = false;

  // All members begin anew, and whatever state they hold is void.
  bool begins_anew() const { return carriers.empty() || gives_up; }
  int size() const { return static_cast<int>(members.size()); }
};

}  // namespace ffdl
