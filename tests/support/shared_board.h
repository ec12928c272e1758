#pragma once

#include <sys/mman.h>

#include <memory>

namespace ffdl::testing {

// A Board that this process and all that it forks from here on see, to the end of them all.
template <class Board>
Board& make_shared_board() {
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *std::construct_at(static_cast<Board*>(memory));
}

}  // namespace ffdl::testing
