#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "elastic/state/user_memory.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// Copies the state of one member to another: the buffers of the model, and the bytes that the
// participants keep beside them. Both sides hash it on its way. It counts only if the hashes agree.
namespace ffdl::elastic {

// Hashes buffers and the bytes beside them. Errors: those of UserMemory.
Result<uint64_t> hash_of(UserMemory& memory, std::span<const Buffer> buffers,
                         std::span<const std::byte> beside);
// Hashes buffers in host memory and the bytes beside them.
uint64_t hash_of(std::span<const Buffer> buffers, std::span<const std::byte> beside);

// Returns the deadline of the next piece of a copy. It is called for each piece.
using NextDeadline = std::function<Time()>;

// Identifies a state that is copied, its sender and its receiver in a world.
struct StateTransfer {
  uint64_t generation = 0;
  uint64_t step = 0;
  uint64_t from = 0;
  uint64_t to = 0;

  bool operator==(const StateTransfer&) const = default;
};

// Sends a state. It travels as host memory, wherever the buffers are.
// Blocks: until the receiver has taken all. Errors: those of Communicator and UserMemory.
Status send_state(Communicator& communicator, const StateTransfer& label, UserMemory& memory,
                  std::span<const Buffer> buffers, std::span<const std::byte> beside,
                  const NextDeadline& deadline);

// Receives a state into `into`, which is undefined after an error. Returns the bytes beside the
// buffers.
// Errors: those of Communicator and UserMemory, kInternal (the data differ from those sent, or have
// another label). With another label, nothing was written.
Result<std::vector<std::byte>> receive_state(Communicator& communicator, const StateTransfer& label,
                                             UserMemory& memory, std::span<const Buffer> into,
                                             const NextDeadline& deadline);

}  // namespace ffdl::elastic
