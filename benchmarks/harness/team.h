#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace ffdl::bench {

// Threads that wait for work, so that loops are timed without the start of their threads. The
// caller's thread is member 0.
// Threads: run() from one thread at a time.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(others_.size()) + 1; }

  // Calls work(member) on every member and returns when all have finished.
  void run(const std::function<void(int)>& work);

  // Returns the part [begin, end) of `count` for `member`, cut at whole cache lines of floats.
  std::pair<size_t, size_t> part(size_t count, int member) const;

 private:
  std::atomic<uint32_t> turn_{0};  // grows by one per run(); the release pairs with the wait
  std::atomic<uint32_t> busy_{0};  // other members that have not ended this turn
  std::atomic<bool> over_{false};
  const std::function<void(int)>* work_ = nullptr;
  std::vector<std::jthread> others_;
};

}  // namespace ffdl::bench
