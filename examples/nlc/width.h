#pragma once

namespace nlc {

inline constexpr int kWidth = 64;  // floats of a row of the embedding table

}  // namespace nlc
