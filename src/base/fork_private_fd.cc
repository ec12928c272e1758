#include "base/fork_private_fd.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>

#include "base/limits.h"

namespace ffdl::base {
namespace {

// Uses atomics only: the child of a process with threads may call nothing that takes a lock. 0 is a
// free entry, fd + 1 a used one.
std::array<std::atomic<int>, kForkPrivateMax> table;

void close_all_in_child() {
  for (auto& entry : table) {
    const int fd = entry.exchange(0, std::memory_order_relaxed) - 1;
    if (fd >= 0) ::close(fd);
  }
}

int add_to_table(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, close_all_in_child);
  if (registered != 0) return -1;
  for (size_t i = 0; i < table.size(); ++i) {
    int free_entry = 0;
    if (table[i].compare_exchange_strong(free_entry, fd + 1, std::memory_order_relaxed)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace

ForkPrivateFd::ForkPrivateFd(int fd) : entry_(fd < 0 ? -1 : add_to_table(fd)) {
  if (entry_ < 0 && fd >= 0) ::close(fd);
}

ForkPrivateFd& ForkPrivateFd::operator=(ForkPrivateFd&& other) noexcept {
  if (this != &other) {
    close();
    entry_ = std::exchange(other.entry_, -1);
  }
  return *this;
}

int ForkPrivateFd::get() const {
  return entry_ < 0 ? -1 : table[static_cast<size_t>(entry_)].load(std::memory_order_relaxed) - 1;
}

void ForkPrivateFd::close() {
  const int fd = release();
  if (fd >= 0) ::close(fd);
}

int ForkPrivateFd::release() {
  if (entry_ < 0) return -1;
  return table[static_cast<size_t>(std::exchange(entry_, -1))].exchange(0) - 1;
}

}  // namespace ffdl::base
