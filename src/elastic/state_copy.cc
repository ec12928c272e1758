#include "elastic/state_copy.h"

#include "base/errors.h"
#include "base/limits.h"
#include "elastic/hash.h"

namespace ffdl::elastic {
Result<uint64_t> hash_of(UserMemory& memory, std::span<const Buffer> buffers,
                         std::span<const std::byte> beside) {
  Hash hash;
  hash.add(beside.data(), beside.size());
  FFDL_RETURN_IF_ERROR(memory.visit(buffers, Access::kRead, [&](const Buffer& piece) -> Status {
    hash.add(piece.data, bytes_of(piece));
    return {};
  }));
  return hash.digest();
}

uint64_t hash_of(std::span<const Buffer> buffers, std::span<const std::byte> beside) {
  Hash hash;
  hash.add(beside.data(), beside.size());
  for (const Buffer& buffer : buffers) hash.add(buffer.data, bytes_of(buffer));
  return hash.digest();
}

Status send_state(Communicator& communicator, int to, UserMemory& memory,
                  std::span<const Buffer> buffers, std::span<const std::byte> beside,
                  const NextDeadline& deadline) {
  std::vector<std::byte> copy(beside.begin(), beside.end());
  uint64_t size = copy.size();
  FFDL_RETURN_IF_ERROR(communicator.send(as_bytes(&size, sizeof size), to, deadline()));
  FFDL_RETURN_IF_ERROR(communicator.send(as_bytes(copy.data(), size), to, deadline()));
  Hash hash;
  hash.add(copy.data(), size);
  FFDL_RETURN_IF_ERROR(memory.visit(buffers, Access::kRead, [&](const Buffer& piece) {
    hash.add(piece.data, bytes_of(piece));
    return communicator.send(as_bytes(piece.data, bytes_of(piece)), to, deadline());
  }));
  uint64_t digest = hash.digest();
  return communicator.send(as_bytes(&digest, sizeof digest), to, deadline());
}

Result<std::vector<std::byte>> receive_state(Communicator& communicator, int from,
                                             UserMemory& memory, std::span<const Buffer> into,
                                             const NextDeadline& deadline) {
  uint64_t size = 0;
  FFDL_RETURN_IF_ERROR(communicator.recv(as_bytes(&size, sizeof size), from, deadline()));
  if (size > base::kParticipantBytesMax) {
    return base::make_error(StatusCode::kInternal,
                            "take over the state: {} bytes of participants, at most {} can be",
                            size, base::kParticipantBytesMax);
  }
  std::vector<std::byte> beside(size);
  FFDL_RETURN_IF_ERROR(communicator.recv(as_bytes(beside.data(), size), from, deadline()));
  Hash hash;
  hash.add(beside.data(), size);
  FFDL_RETURN_IF_ERROR(memory.visit(into, Access::kWrite, [&](const Buffer& piece) {
    const uint64_t bytes = bytes_of(piece);
    Status received = communicator.recv(as_bytes(piece.data, bytes), from, deadline());
    if (received.ok()) hash.add(piece.data, bytes);
    return received;
  }));
  uint64_t digest = 0;
  FFDL_RETURN_IF_ERROR(communicator.recv(as_bytes(&digest, sizeof digest), from, deadline()));
  if (digest == hash.digest()) return beside;
  return base::make_error(
      StatusCode::kInternal,
      "take over the state of rank {}: what came has another hash than what was "
      "sent; state() may only be changed by apply()",
      from);
}

}  // namespace ffdl::elastic
