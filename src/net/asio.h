#pragma once

// Without this asio allocates by one function and frees by another: which one it takes depends on
// whether a header of the standard library came before it.
#define ASIO_DISABLE_STD_ALIGNED_ALLOC 1
#include <asio.hpp>  // IWYU pragma: export
