#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/fork_private_fd.h"
#include "comm/shm/pause.h"
#include "ffdl/types.h"

namespace ffdl::comm {

// Exchanges descriptors among the ranks of one host, as messages of a socket. The kernel attests
// their sender. The socket has an abstract name, which the kernel chose and which disappears with
// the socket. Any process in the network namespace could send there. So a message also carries the
// secret that this rank sent to the others alone.
// Threads: one.
class DescriptorExchange {
 public:
  // The address that a rank publishes to the others, by a channel that no other process reads.
  struct Address {
    uint8_t name[16] = {};
    uint64_t name_bytes = 0;
    uint64_t secret = 0;
  };

  // Errors: kExhausted (no descriptors), kUnavailable (with the system's reason).
  static Result<DescriptorExchange> open();
  const Address& address() const { return address_; }

  // Sends `own` to all others and returns theirs, by rank; the entry of this rank is empty. All
  // ranks call it with the addresses of all. A wait calls `pause`, whose error ends the wait.
  // Errors: those of `pause` (the missing rank is added to its kTimeout), kExhausted (no
  //         descriptors).
  Result<std::vector<base::ForkPrivateFd>> run(const World& world, std::span<const Address> all,
                                               int own, const Pause& pause);

 private:
  DescriptorExchange(base::ForkPrivateFd socket, Address address)
      : socket_(std::move(socket)), address_(address) {}
  // Returns whether the message was sent; else sets `hindrance`. The hindrance may pass, or be a
  // death, which `pause` reports.
  bool send(const World& world, const Address& to, int own, int& hindrance) const;
  // Receives all messages that have arrived.
  Status take(const World& world, std::vector<base::ForkPrivateFd>& taken) const;

  base::ForkPrivateFd socket_;
  Address address_;
};

}  // namespace ffdl::comm
