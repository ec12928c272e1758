#pragma once

namespace nlc {

inline constexpr int kWidth = 64;  // floats in a row of the embedding table

}  // namespace nlc
