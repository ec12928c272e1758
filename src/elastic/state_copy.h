#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "elastic/user_memory.h"
#include "ffdl/communicator.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// The state of one member becomes another's: buffers of the model, and bytes beside them (what the
// participants keep). Both sides hash it on its way, and it counts only if the hashes agree.
namespace ffdl::elastic {

// Errors: those of UserMemory.
Result<uint64_t> hash_of(UserMemory& memory, std::span<const Buffer> buffers,
                         std::span<const std::byte> beside);
// Of buffers in the host's memory.
uint64_t hash_of(std::span<const Buffer> buffers, std::span<const std::byte> beside);

// Ends one piece of a copy: the deadline of the next one.
using NextDeadline = std::function<Time()>;

// Between the members it is memory of the hosts that moves, whatever the buffers lie in.
// Blocks: until the receiver has taken all. Errors: those of Communicator and UserMemory.
Status send_state(Communicator& communicator, int to, UserMemory& memory,
                  std::span<const Buffer> buffers, std::span<const std::byte> beside,
                  const NextDeadline& deadline);

// `into` is undefined after an error. Returns the bytes beside.
// Errors: those of Communicator and UserMemory, kInternal (what came is not what was sent).
Result<std::vector<std::byte>> receive_state(Communicator& communicator, int from,
                                             UserMemory& memory, std::span<const Buffer> into,
                                             const NextDeadline& deadline);

}  // namespace ffdl::elastic
