#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::data {

// Assigns the samples of a row to owners by weight. The assignment of the first kSlots samples
// repeats every kSlots samples. Owners are spread evenly, so that the first few samples are in
// proportion too.
class WeightedCycle {
 public:
  static constexpr uint64_t kSlots = 1000;

  // `doing` begins the error message. Errors: kInvalidArgument (invalid weights, or a weight too
  // small for a slot).
  static Result<WeightedCycle> make(const std::vector<double>& weights, std::string_view doing);

  // Returns how many of the first `count` samples belong to an owner.
  uint64_t owned(size_t owner, uint64_t count) const;
  // Returns the position in the row of the owner's sample `number`.
  uint64_t place(size_t owner, uint64_t number) const;

  struct Owned {
    size_t owner = 0;
    uint64_t number = 0;  // among the owner's samples

    bool operator==(const Owned&) const = default;
  };
  Owned at(uint64_t place) const;

 private:
  std::vector<std::vector<uint64_t>> slots_{};  // by owner, in their order
  std::vector<Owned> owners_{};                 // by slot
};

}  // namespace ffdl::data
