#pragma once

#include <gtest/gtest.h>

#include <type_traits>

// Compares our declarations of a foreign library with the library's own header.
namespace ffdl::testing {

// Returns true for two types that are passed alike: pointers, numbers of one size, or structs of
// one size.
template <class Ours, class Theirs>
constexpr bool alike() {
  return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
         std::is_class_v<Ours> == std::is_class_v<Theirs> &&
         std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
}

template <class OurResult, class... Ours, class TheirResult, class... Theirs>
constexpr bool same_shape(OurResult (*)(Ours...), TheirResult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return alike<OurResult, TheirResult>() && (alike<Ours, Theirs>() && ...);
  }
  return false;
}

template <class Ours, class Theirs>
void expect_same(Ours ours, Theirs theirs) {
  EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs));
}

}  // namespace ffdl::testing
