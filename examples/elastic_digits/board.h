#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace elastic {

inline constexpr int kWorkersMax = 4;

struct Options {
  std::string data{};
  std::string out = "elastic-run";
  uint64_t epochs = 60;
  uint64_t mini_batch = 32;
  float learning_rate = 0.02F;
  uint64_t seed = 1;
  bool json = false;
};

// State that the supervisor and its workers share, in memory that fork() shares. Each word is
// independent of the others: relaxed.
struct Board {
  std::atomic<uint64_t> samples;  // committed, in the steps that the workers have seen
  struct Worker {
    std::atomic<uint64_t> steps;  // of the process that has this number at present
    std::atomic<bool> leave;
  };
  std::array<Worker, kWorkersMax> workers;
};

}  // namespace elastic
