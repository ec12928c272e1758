#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::data {

// Who owns which of a row of samples, by weight: the first kSlots samples, and again each as many
// after them. Owners are spread evenly, so that the first few samples have them in proportion too.
class WeightedCycle {
 public:
  static constexpr uint64_t kSlots = 1000;

  // `doing` begins the message of an error. Errors: kInvalidArgument (weights that are none, or
  // less than half a slot).
  static Result<WeightedCycle> make(const std::vector<double>& weights, std::string_view doing);

  // Of `count` samples, how many belong to an owner.
  uint64_t owned(size_t owner, uint64_t count) const;
  // Where the owner's sample `number` is in the row.
  uint64_t place(size_t owner, uint64_t number) const;

  struct Owned {
    size_t owner = 0;
    uint64_t number = 0;  // among the owner's

    bool operator==(const Owned&) const = default;
  };
  Owned at(uint64_t place) const;

 private:
  std::vector<std::vector<uint64_t>> slots_{};  // of each owner, in their order
  std::vector<Owned> owners_{};                 // of each slot
};

}  // namespace ffdl::data
