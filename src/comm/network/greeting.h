#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "ffdl/types.h"

// Proves to two members of a world, over a fresh connection, which members they are. The called
// member sends random bytes; the caller answers with its proof; the called member answers with its
// own. A proof is an HMAC under a token that only members of the world can compute. It binds job,
// generation, members, both ranks and the random bytes of both.
namespace ffdl::comm {

// Makes a token from the seeds of all members, by rank, as in their records in the store. One seed
// that was made for this life suffices for a token that no earlier world had.
std::string link_token(const World& world, const std::vector<std::string>& seeds);

// The first message, from the called member.
struct LinkChallenge {
  std::array<char, 8> magic;
  std::array<char, 32> nonce;
};
static_assert(sizeof(LinkChallenge) == 40);

// The second message, from the caller.
struct LinkProof {
  uint64_t generation;
  uint64_t members;  // world_hash(), which includes the job
  int32_t from;      // ranks
  int32_t to;
  std::array<char, 32> nonce;
  std::array<char, 32> mac;
};
static_assert(sizeof(LinkProof) == 88);

// The third message, from the called member.
struct LinkWelcome {
  std::array<char, 32> mac;
};
static_assert(sizeof(LinkWelcome) == 32);

// Makes and checks the greetings of one member of `world`.
// Threads: one at a time.
class LinkGreeter {
 public:
  LinkGreeter(const World& world, std::string token) : world_(world), token_(std::move(token)) {}

  // Errors: kUnavailable (no random bytes).
  static Result<LinkChallenge> challenge();
  // Returns the proof for the member of rank `to`. Errors: kPeerLost (the challenge is not from a
  // member), kUnavailable.
  Result<LinkProof> answer(const LinkChallenge& challenge, int to) const;
  // Returns the rank of the caller that has proved itself. Errors: kPeerLost (none has).
  Result<int> check(const LinkChallenge& challenge, const LinkProof& proof) const;
  LinkWelcome welcome(const LinkChallenge& challenge, const LinkProof& proof) const;
  // Errors: kPeerLost (not from the called member).
  Status check(const LinkChallenge& challenge, const LinkProof& proof,
               const LinkWelcome& welcome) const;

 private:
  std::array<char, 32> mac_of(std::string_view side, const LinkChallenge& challenge,
                              const LinkProof& proof) const;

  const World& world_;
  const std::string token_;
};

}  // namespace ffdl::comm
