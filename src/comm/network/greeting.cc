#include "comm/network/greeting.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/errors.h"
#include "comm/operation/world_key.h"
#include "net/challenge.h"

namespace ffdl::comm {
namespace {

constexpr std::array<char, 8> kMagic = {'f', 'f', 'd', 'l', 'l', 'n', 'k', '1'};
constexpr std::string_view kCaller = "caller";
constexpr std::string_view kCalled = "called";

std::array<char, 32> fixed(std::string_view bytes) {
  std::array<char, 32> array{};
  FFDL_CHECK(bytes.size() == array.size(), "nonces and HMAC-SHA256 have 32 bytes");
  std::ranges::copy(bytes, array.begin());
  return array;
}

std::string_view view(const std::array<char, 32>& bytes) { return {bytes.data(), bytes.size()}; }

// Returns the text that both sides know without a message.
std::string text_of(const World& world) {
  return fmt::format("{} {}", meeting_key(world), world.members.size());
}

}  // namespace

std::string link_token(const World& world, const std::vector<std::string>& seeds) {
  std::string all;
  for (const std::string& seed : seeds) all += fmt::format("{}:{};", seed.size(), seed);
  return net::mac_of(all, {"ffdl links", text_of(world)});
}

Result<LinkChallenge> LinkGreeter::challenge() {
  FFDL_ASSIGN_OR_RETURN(const std::string nonce, net::make_nonce());
  return LinkChallenge{.magic = kMagic, .nonce = fixed(nonce)};
}

Result<LinkProof> LinkGreeter::answer(const LinkChallenge& challenge, int to) const {
  if (challenge.magic != kMagic) {
    return base::make_error(StatusCode::kPeerLost,
                            "connect {} as rank {}: a process that is not a member listens at the "
                            "address of rank {} '{}'; form a new world",
                            name_of(world_), world_.rank, to,
                            world_.members[static_cast<size_t>(to)].id);
  }
  FFDL_ASSIGN_OR_RETURN(const std::string nonce, net::make_nonce());
  LinkProof proof = {.generation = world_.generation,
                     .members = world_hash(world_),
                     .from = world_.rank,
                     .to = to,
                     .nonce = fixed(nonce),
                     .mac = {}};
  proof.mac = mac_of(kCaller, challenge, proof);
  return proof;
}

Result<int> LinkGreeter::check(const LinkChallenge& challenge, const LinkProof& proof) const {
  const bool fits = proof.generation == world_.generation && proof.members == world_hash(world_) &&
                    proof.to == world_.rank && proof.from > world_.rank &&
                    proof.from < world_.size();
  if (fits && net::same_mac(view(proof.mac), view(mac_of(kCaller, challenge, proof)))) {
    return proof.from;
  }
  return base::make_error(
      StatusCode::kPeerLost,
      "connect {} as rank {}: a process that is not a member of it has connected", name_of(world_),
      world_.rank);
}

LinkWelcome LinkGreeter::welcome(const LinkChallenge& challenge, const LinkProof& proof) const {
  return {mac_of(kCalled, challenge, proof)};
}

Status LinkGreeter::check(const LinkChallenge& challenge, const LinkProof& proof,
                          const LinkWelcome& welcome) const {
  if (net::same_mac(view(welcome.mac), view(mac_of(kCalled, challenge, proof)))) return {};
  return base::make_error(StatusCode::kPeerLost,
                          "connect {} as rank {}: a process that is not a member answers at the "
                          "address of rank {} '{}'; form a new world",
                          name_of(world_), world_.rank, proof.to,
                          world_.members[static_cast<size_t>(proof.to)].id);
}

std::array<char, 32> LinkGreeter::mac_of(std::string_view side, const LinkChallenge& challenge,
                                         const LinkProof& proof) const {
  const std::string ranks = fmt::format("{} {}", proof.from, proof.to);
  return fixed(net::mac_of(
      token_, {side, text_of(world_), ranks, view(challenge.nonce), view(proof.nonce)}));
}

}  // namespace ffdl::comm
