#pragma once

#include <sys/mman.h>

#include <memory>

namespace ffdl::testing {

// Makes a Board that this process and all its later forks share, until the last of them ends.
template <class Board>
Board& make_shared_board() {
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *std::construct_at(static_cast<Board*>(memory));
}

}  // namespace ffdl::testing
