#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::bench {

// The plain TCP connections of one rank to the next rank and from the previous one: what any
// all_reduce over TCP is compared with. Nothing is added up.
// Threads: one.
// Blocks: each call until it is done, or no byte has moved for a minute (kTimeout).
class Streams {
 public:
  // All ranks call it. `addresses` holds the address of each rank's host. Each rank listens at
  // `first_port` and its rank, and makes `count` connections.
  static Result<Streams> connect(int rank, const std::vector<std::string>& addresses, int count,
                                 uint16_t first_port);
  Streams(Streams&& other) noexcept = default;
  Streams& operator=(Streams&&) = delete;
  ~Streams();

  // Sends `bytes` to the next rank, and receives as many from the previous one at the same time,
  // over the first `count` connections.
  Status exchange(uint64_t bytes, int count);
  // The same over one connection by MSG_ZEROCOPY ("zerocopy") or io_uring ("io_uring").
  Status exchange_by(const std::string& way, uint64_t bytes);
  // Sends `bytes` from rank 0 to rank 1 and back, `times` times. Other ranks return at once.
  Status round_trips(uint64_t bytes, int64_t times);

 private:
  explicit Streams(int rank) : rank_(rank) {}
  const int rank_;
  std::vector<int> next_;      // sockets that this rank sends to
  std::vector<int> previous_;  // sockets that it receives from
  std::vector<char> outgoing_;
  std::vector<char> incoming_;
};

}  // namespace ffdl::bench
