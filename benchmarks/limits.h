#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "benchmarks/harness/memory.h"
#include "benchmarks/harness/team.h"

// The limits of the machine: the best figures that the benchmarks are compared with. Compiled for
// this very processor. Loops run on all members of a Team and return seconds.
namespace ffdl::bench {

// Runs a[i] += c: one read and one write of each byte. All other loops are compared with it.
double traffic_s(Team& team, Memory& a);
// Returns the bytes read and written per second, the median over some passes.
double traffic_bytes_per_s(Team& team, size_t bytes);

double copy_s(void* to, const void* from, size_t bytes);

// Returns the sum of the words: the least work of a consumer that reads every byte.
uint64_t sum_of(std::span<const std::byte> bytes);
// Sums the records of a file in memory, in an order that is known beforehand, so that each is
// fetched ahead. With a buffer, each record is first copied to its next place there.
uint64_t sum_of_records(std::span<const std::byte> file, size_t record_bytes,
                        std::span<const uint64_t> order, std::span<std::byte> buffer);

// The update rules in their plain form, over whole arrays of equal size.
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

// Sends a cache line to another process and back while both are awake: the shortest message there
// is. The partner sleeps in a read between turns.
// Owns: the partner process.
class PingPong {
 public:
  // Starts the partner on processor `partner_cpu`; the caller stays on its own processor.
  explicit PingPong(int partner_cpu);
  ~PingPong();
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  // Returns the seconds of `count` round trips, after some that wake the partner up.
  double seconds(int count);

 private:
  struct Lines;
  Memory memory_;
  int wake_;
  pid_t partner_;
};

// Sends a small message over a TCP connection of the loopback to another process and back. Both
// sleep until a message arrives.
// Owns: the partner process.
class LoopbackTrips {
 public:
  explicit LoopbackTrips(size_t message_bytes);
  ~LoopbackTrips();
  LoopbackTrips(const LoopbackTrips&) = delete;
  LoopbackTrips& operator=(const LoopbackTrips&) = delete;

  // Returns the seconds of `count` round trips; 0 without a connection.
  double seconds(int count);

 private:
  std::vector<char> message_;
  int socket_ = -1;
  pid_t partner_ = 0;
};

// Returns the processors that this process may use. The function after it restricts the calling
// thread, and all threads and processes that it starts later, to some of them.
std::vector<int> processors();
void stay_on(const std::vector<int>& chosen);

}  // namespace ffdl::bench
