#pragma once

#include <string>
#include <vector>

#include "base/fork_private_fd.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// Gives each member of a world one connection to each other member that is proved to be from it.
namespace ffdl::comm {

// The record that one member publishes for the others.
struct LinkRecord {
  std::string address;  // an IP address in digits
  uint16_t port = 0;
  std::string seed;  // for link_token()
};
std::string to_record(const LinkRecord& record);
// Errors: kCorrupt.
Result<LinkRecord> link_record_of(std::string_view text);

// The listening socket of one member. The member of the higher rank of two calls the other. A
// connection counts when both have proved which members they are (network/greeting.h). A connection
// without proof is closed, and the real peer is still accepted.
// Threads: one at a time.
// Owns: its descriptors, which a forked child does not keep.
class LinkMeeting {
 public:
  // Calls `unreached` of `options` for every other member before it fails.
  // Errors: kInvalidArgument (`address` is not one of this host), kExhausted (descriptors),
  //         kUnavailable.
  static Result<LinkMeeting> listen(const World& world, const std::string& address,
                                    const CommunicatorOptions& options = {});

  const LinkRecord& record() const { return record_; }
  // Returns the secret of the members of this world (network/greeting.h). Requires a connect() that
  // succeeded.
  const std::string& token() const { return token_; }

  // Returns one connection per other member, by rank; the one at this rank is not valid. `records`
  // are those of all, by rank. It returns when all members have all their connections. The socket
  // no longer listens afterwards. Calls `interrupt_check` of `options`, and `unreached` before it
  // fails.
  // Errors: kTimeout (names a missing member), kPeerLost (names one that is gone, or is not the
  //         expected one), kCorrupt (records), kExhausted, kUnavailable, those of
  //         `interrupt_check`.
  Result<std::vector<base::ForkPrivateFd>> connect(const std::vector<std::string>& records,
                                                   Time deadline,
                                                   const CommunicatorOptions& options = {});

 private:
  LinkMeeting(const World& world, base::ForkPrivateFd listener, LinkRecord record)
      : world_(world), listener_(std::move(listener)), record_(std::move(record)) {}

  static Result<LinkMeeting> listen_at(const World& world, const std::string& address);

  World world_;
  base::ForkPrivateFd listener_;
  LinkRecord record_;
  std::string token_;
};

}  // namespace ffdl::comm
