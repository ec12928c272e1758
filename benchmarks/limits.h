#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "benchmarks/harness/memory.h"
#include "benchmarks/harness/team.h"

// What the machine can do: the best that anything in the benchmarks is compared with. Compiled for
// this very processor. Loops run on all members of a Team and return seconds.
namespace ffdl::bench {

// a[i] += c: one read and one write of each byte. The measure of all other loops.
double traffic_s(Team& team, Memory& a);
// Bytes read and written per second, the median over some passes.
double traffic_bytes_per_s(Team& team, size_t bytes);

double copy_s(void* to, const void* from, size_t bytes);

// Reads every byte, as the least that a consumer of data does: a sum of its words.
uint64_t sum_of(std::span<const std::byte> bytes);
// The records of a file in memory, in an order that is known beforehand: each is fetched ahead and
// summed up. With a buffer each is copied first, to its next place there.
uint64_t sum_of_records(std::span<const std::byte> file, size_t record_bytes,
                        std::span<const uint64_t> order, std::span<std::byte> buffer);

// The update rules as anybody would write them, over whole arrays of equal size.
double sgd_s(Team& team, Memory& weights, const Memory& gradient, float rate);
double momentum_s(Team& team, Memory& weights, Memory& velocity, const Memory& gradient, float rate,
                  float momentum);

struct AdamNumbers {
  float rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float correction1 = 1;  // 1 - beta1^t
  float correction2 = 1;  // 1 - beta2^t
};
double adam_s(Team& team, Memory& weights, Memory& mean, Memory& square, const Memory& gradient,
              const AdamNumbers& numbers);

// A cache line that goes to another process and back, both awake: the shortest message there is.
// The partner sleeps in a read between turns.
// Owns: the partner process.
class PingPong {
 public:
  // The partner runs on processor `partner_cpu`, the caller wherever it is.
  explicit PingPong(int partner_cpu);
  ~PingPong();
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  // Seconds of `count` round trips, after some that wake the partner up.
  double seconds(int count);

 private:
  struct Lines;
  Memory memory_;
  int wake_;
  pid_t partner_;
};

// A small message that goes over a TCP connection of the loopback to another process and back; both
// sleep until theirs comes.
// Owns: the partner process.
class LoopbackTrips {
 public:
  explicit LoopbackTrips(size_t message_bytes);
  ~LoopbackTrips();
  LoopbackTrips(const LoopbackTrips&) = delete;
  LoopbackTrips& operator=(const LoopbackTrips&) = delete;

  // Seconds of `count` round trips; 0 where there is no connection.
  double seconds(int count);

 private:
  std::vector<char> message_;
  int socket_ = -1;
  pid_t partner_ = 0;
};

// The processors that this process may use, and a choice of them for the calling thread and all
// threads and processes that it starts later.
std::vector<int> processors();
void stay_on(const std::vector<int>& chosen);

}  // namespace ffdl::bench
