#include "benchmarks/harness/team.h"

#include <algorithm>

namespace ffdl::bench {

Team::Team(int threads) {
  for (int member = 1; member < threads; ++member) {
    others_.emplace_back([this, member] {
      for (uint32_t seen = 0;;) {
        turn_.wait(seen, std::memory_order_acquire);
        seen = turn_.load(std::memory_order_acquire);
        if (over_.load(std::memory_order_relaxed)) return;
        (*work_)(member);
        if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
      }
    });
  }
}

Team::~Team() {
  over_.store(true, std::memory_order_relaxed);
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
}

void Team::run(const std::function<void(int)>& work) {
  work_ = &work;
  busy_.store(static_cast<uint32_t>(others_.size()), std::memory_order_relaxed);
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
  work(0);
  for (uint32_t left; (left = busy_.load(std::memory_order_acquire)) != 0;) busy_.wait(left);
}

std::pair<size_t, size_t> Team::part(size_t count, int member) const {
  constexpr size_t kLine = 16;
  const size_t lines = (count + kLine - 1) / kLine;
  const auto cut = [&](int at) {
    return std::min(count, lines * static_cast<size_t>(at) / static_cast<size_t>(size()) * kLine);
  };
  return {cut(member), cut(member + 1)};
}

}  // namespace ffdl::bench
