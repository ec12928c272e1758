#pragma once

// Keeps asio from allocating by one function and freeing by another. Its choice depends on whether
// a header of the standard library came before it.
#define ASIO_DISABLE_STD_ALIGNED_ALLOC 1
#include <asio.hpp>  // IWYU pragma: export
