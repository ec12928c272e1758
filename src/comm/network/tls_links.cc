#include "comm/network/tls_links.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/errors.h"
#include "base/limits.h"
#include "base/resource_limit.h"
#include "comm/operation/world_key.h"
#include "net/challenge.h"
#include "net/tls_stream.h"

namespace ffdl::comm {
namespace {

using net::TlsStream;

// One handshake that has not ended.
struct Handshake {
  int rank = 0;
  TlsStream* stream = nullptr;
};

// The member of the higher rank is the client, as in the meeting.
Result<std::unique_ptr<TlsStream>> tls_stream_to(const World& world, int rank, int fd,
                                                 const std::string& token) {
  const std::string pair =
      fmt::format("{} {}", std::max(rank, world.rank), std::min(rank, world.rank));
  const std::string key = net::mac_of(token, {"ffdl tls", pair});
  return TlsStream::make(fd,
                         rank < world.rank ? TlsStream::Side::kClient : TlsStream::Side::kServer,
                         key, "ffdl " + pair);
}

Status not_encrypted(const World& world, int rank, const Status& cause) {
  return base::make_error(StatusCode::kPeerLost,
                          "encrypt the connections of {} as rank {}: rank {} '{}' died, failed or "
                          "left ({}); form a new world",
                          name_of(world), world.rank, rank,
                          world.members[static_cast<size_t>(rank)].id, cause.message());
}

// Continues the handshakes as far as they go now, and removes those that have ended.
Status continue_handshakes(const World& world, std::vector<Handshake>& handshakes) {
  for (auto handshake = handshakes.begin(); handshake != handshakes.end();) {
    const Result<bool> done = handshake->stream->handshake();
    if (!done.ok()) return not_encrypted(world, handshake->rank, done.status());
    handshake = *done ? handshakes.erase(handshake) : ++handshake;
  }
  return {};
}

}  // namespace

Result<std::vector<std::unique_ptr<net::ByteStream>>> encrypt_links(
    const World& world, const std::vector<base::ForkPrivateFd>& sockets, const std::string& token,
    Time deadline, const CommunicatorOptions& options) {
  std::vector<std::unique_ptr<net::ByteStream>> streams(sockets.size());
  std::vector<Handshake> handshakes;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank) continue;
    const auto at = static_cast<size_t>(rank);
    FFDL_ASSIGN_OR_RETURN(auto stream, tls_stream_to(world, rank, sockets[at].get(), token));
    handshakes.push_back({rank, stream.get()});
    streams[at] = std::move(stream);
  }
  // The members have met, so only a new failure can delay them.
  const Time last = std::min<Time>(deadline, deadline_in(2 * base::kLinkSilenceMax));
  while (true) {
    FFDL_RETURN_IF_ERROR(continue_handshakes(world, handshakes));
    if (handshakes.empty()) return streams;
    if (options.interrupt_check) FFDL_RETURN_IF_ERROR(options.interrupt_check());
    if (std::chrono::steady_clock::now() >= last) {
      const int rank = handshakes.front().rank;
      return base::make_error(
          StatusCode::kTimeout,
          "encrypt the connections of {} as rank {}: rank {} '{}' had not answered by the "
          "deadline; wait longer, or find out what it does",
          name_of(world), world.rank, rank, world.members[static_cast<size_t>(rank)].id);
    }
    std::vector<pollfd> polled;
    for (const Handshake& handshake : handshakes) {
      polled.push_back({sockets[static_cast<size_t>(handshake.rank)].get(), POLLIN, 0});
    }
    const auto patience = std::chrono::milliseconds(base::kStandingInterval);
    if (poll(polled.data(), polled.size(), static_cast<int>(patience.count())) < 0 &&
        errno != EINTR) {
      return base::system_failure(fmt::format("connect {}: poll", name_of(world)), errno,
                                  "try again");
    }
  }
}

}  // namespace ffdl::comm
