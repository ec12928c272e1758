#pragma once

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "ffdl/runtime.h"
#include "ffdl/types.h"

// Measures how slow the machine is just now. Tests of time scale their bounds by it.
namespace ffdl::testing {

struct MachineTimes {
  Duration work{};  // a piece of work, in threads that use the processors together
  Duration turn{};  // a message to another thread and its answer; nearly the latest of many
};

// On two processors of an AMD EPYC of 2023 with little other work, a piece takes 11 us (the least
// of 50 measurements), and the 99th percentile of the turns is 0.1 ms. The bounds of tests are tens
// of milliseconds and more, so turns below 0.5 ms do not count as slow.
inline constexpr MachineTimes kQuietMachine = {.work = std::chrono::microseconds(11),
                                               .turn = std::chrono::microseconds(500)};
// Beyond this the bounds would mean nothing.
inline constexpr double kSlownessMax = 20;

// Returns how many times slower than a quiet machine the machine of these times is, from 1.
constexpr double slowness_of(const MachineTimes& times) {
  const auto ratio = [](Duration time, Duration quiet) {
    return static_cast<double>(time.count()) / static_cast<double>(quiet.count());
  };
  return std::clamp(std::max(ratio(times.work, kQuietMachine.work),
                             ratio(times.turn, kQuietMachine.turn)),
                    1.0, kSlownessMax);
}

// Returns the 99th percentile; zero of none.
inline Duration nearly_longest(std::vector<Duration> times) {
  if (times.empty()) return {};
  const auto place = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 99 / 100);
  std::nth_element(times.begin(), place, times.end());
  return *place;
}

// Searches memory by the C library, which is as fast in a test that is not optimised.
inline void do_piece_of_work() {
  static const std::vector<char> zeros(16 << 10);
  static volatile int sought = 1;
  for (int i = 0; i < 100; ++i) {
    if (std::memchr(zeros.data(), sought, zeros.size()) != nullptr) sought = 1;
  }
}

inline Duration measure_work(Duration length) {
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
  std::atomic<int64_t> pieces = 0;
  const Time begin = std::chrono::steady_clock::now();
  const auto work = [&] {
    do {
      do_piece_of_work();
      pieces.fetch_add(1);
    } while (std::chrono::steady_clock::now() - begin < length);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return (std::chrono::steady_clock::now() - begin) * threads / pieces.load();
}

inline Duration measure_turn(Duration length) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  std::thread answering([&] {
    char ball = 0;
    while (read(ends[1], &ball, 1) == 1 && write(ends[1], &ball, 1) == 1) {
    }
  });
  // A turn begins every half of a millisecond, so that threads sleep before each, and a long stall
  // counts as many late turns.
  std::vector<Duration> turns;
  const auto never = system_runtime().make_event();
  const Time begin = std::chrono::steady_clock::now();
  for (Duration due{}; due < length; due += std::chrono::microseconds(500)) {
    never->wait_until(begin + due);
    char ball = 0;
    if (write(ends[0], &ball, 1) != 1 || read(ends[0], &ball, 1) != 1) break;
    turns.push_back(std::chrono::steady_clock::now() - begin - due);
  }
  close(ends[0]);
  answering.join();
  close(ends[1]);
  return nearly_longest(std::move(turns));
}

// Measures for 0.2 s, longer on a slow machine. Returns and prints the slowness. Call it before the
// test starts work of its own.
inline double measure_slowness() {
  constexpr auto kEach = std::chrono::milliseconds(100);
  const MachineTimes times = {.work = measure_work(kEach), .turn = measure_turn(kEach)};
  const double slowness = slowness_of(times);
  fmt::print("slowness {:.2f}: a piece of work takes {:.1f} us, a turn {:.3f} ms\n", slowness,
             static_cast<double>(times.work.count()) / 1e3,
             static_cast<double>(times.turn.count()) / 1e6);
  std::fflush(stdout);
  return slowness;
}

inline Duration scaled(Duration bound, double slowness) {
  return Duration(static_cast<int64_t>(static_cast<double>(bound.count()) * slowness));
}

// Returns the bound for a test that has two entries in ctest. In that of ffdl_timing_test() it is
// the bound of a quiet machine, scaled by the present slowness. Otherwise it is an hour: no bound.
inline Duration allowed(Duration bound) {
  if (std::getenv("FFDL_TEST_TIMES") == nullptr) return std::chrono::hours(1);
  return scaled(bound, measure_slowness());
}

}  // namespace ffdl::testing
