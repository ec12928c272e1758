#include "elastic/state/state_copy.h"

#include "base/errors.h"
#include "base/limits.h"
#include "elastic/state/hash.h"

namespace ffdl::elastic {
namespace {

struct StateHeader {
  StateTransfer label;
  uint64_t beside_bytes = 0;
};
static_assert(sizeof(StateHeader) == 40, "a change needs another base::kProtocolVersion");

Status check_header(const StateHeader& header, const StateTransfer& wanted) {
  const StateTransfer& label = header.label;
  if (label != wanted) {
    return base::make_error(StatusCode::kInternal,
                            "take over the state of step {} of generation {} from rank {} as rank "
                            "{}: rank {} sent rank {} the state of step {} of generation {}",
                            wanted.step, wanted.generation, wanted.from, wanted.to, label.from,
                            label.to, label.step, label.generation);
  }
  if (header.beside_bytes <= base::kParticipantBytesMax) return {};
  return base::make_error(
      StatusCode::kInternal,
      "take over the state: the participants have {} bytes, and at most {} are possible",
      header.beside_bytes, base::kParticipantBytesMax);
}

}  // namespace

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

Status send_state(Communicator& communicator, const StateTransfer& label, UserMemory& memory,
                  std::span<const Buffer> buffers, std::span<const std::byte> beside,
                  const NextDeadline& deadline) {
  std::vector<std::byte> copy(beside.begin(), beside.end());
  StateHeader header = {label, copy.size()};
  const int to = static_cast<int>(label.to);
  FFDL_RETURN_IF_ERROR(communicator.send(as_bytes(&header, sizeof header), to, deadline()));
  FFDL_RETURN_IF_ERROR(communicator.send(as_bytes(copy.data(), copy.size()), to, deadline()));
  Hash hash;
  hash.add(copy.data(), copy.size());
  FFDL_RETURN_IF_ERROR(memory.visit(buffers, Access::kRead, [&](const Buffer& piece) {
    hash.add(piece.data, bytes_of(piece));
    return communicator.send(as_bytes(piece.data, bytes_of(piece)), to, deadline());
  }));
  uint64_t digest = hash.digest();
  return communicator.send(as_bytes(&digest, sizeof digest), to, deadline());
}

Result<std::vector<std::byte>> receive_state(Communicator& communicator, const StateTransfer& label,
                                             UserMemory& memory, std::span<const Buffer> into,
                                             const NextDeadline& deadline) {
  StateHeader header;
  const int from = static_cast<int>(label.from);
  FFDL_RETURN_IF_ERROR(communicator.recv(as_bytes(&header, sizeof header), from, deadline()));
  FFDL_RETURN_IF_ERROR(check_header(header, label));
  std::vector<std::byte> beside(header.beside_bytes);
  FFDL_RETURN_IF_ERROR(communicator.recv(as_bytes(beside.data(), beside.size()), from, deadline()));
  Hash hash;
  hash.add(beside.data(), beside.size());
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
      "take over the state of rank {}: the received state has another hash than what was "
      "sent; state() may only be changed by apply()",
      from);
}

}  // namespace ffdl::elastic
