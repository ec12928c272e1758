#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/fork_private_fd.h"
#include "comm/pause.h"
#include "ffdl/types.h"

namespace ffdl::comm {

// How the ranks of one host give each other descriptors: as messages of a socket, of which the
// kernel says who sent them. The socket has a name of the kernel's in no file system, unlike that
// of any other, which goes with it; whoever shares the network namespace could send there, so a
// message also proves that its sender has what this rank told the others alone.
// Threads: one.
class DescriptorExchange {
 public:
  // What a rank tells the others, by a way that nobody else reads.
  struct Address {
    uint8_t name[16] = {};
    uint64_t name_bytes = 0;
    uint64_t secret = 0;
  };

  // Errors: kExhausted (no descriptors), kUnavailable (what the system says).
  static Result<DescriptorExchange> open();
  const Address& address() const { return address_; }

  // Gives `own` to all others and returns theirs, by rank; at the own rank there is none. All call
  // it, with what all told. Who waits asks `pause`, which ends the wait. Errors: those of `pause`,
  // which says kTimeout without knowing for whom: that is added; kExhausted (no descriptors).
  Result<std::vector<base::ForkPrivateFd>> run(const World& world, std::span<const Address> all,
                                               int own, const Pause& pause);

 private:
  DescriptorExchange(base::ForkPrivateFd socket, Address address)
      : socket_(std::move(socket)), address_(address) {}
  // Whether it was sent. What hinders that may pass, or be a death, which `pause` tells.
  bool send(const World& world, const Address& to, int own, int& hindrance) const;
  // Takes all messages that are there.
  Status take(const World& world, std::vector<base::ForkPrivateFd>& taken) const;

  base::ForkPrivateFd socket_;
  Address address_;
};

}  // namespace ffdl::comm
