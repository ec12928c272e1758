#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ffdl/communicator.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// The state of one member becomes another's: buffers of the model, and bytes beside them (what the
// participants keep). Both sides hash it on its way, and it counts only if the hashes agree.
namespace ffdl::elastic {

uint64_t hash_of(std::span<const Buffer> buffers, std::span<const std::byte> beside);

// Ends one piece of a copy: the deadline of the next one.
using NextDeadline = std::function<Time()>;

// Blocks: until the receiver has taken all. Errors: those of Communicator.
Status send_state(Communicator& communicator, int to, std::span<const Buffer> buffers,
                  std::span<const std::byte> beside, const NextDeadline& deadline);

// `into` is undefined after an error. Returns the bytes beside.
// Errors: those of Communicator, kInternal (what came is not what was sent).
Result<std::vector<std::byte>> receive_state(Communicator& communicator, int from,
                                             std::span<const Buffer> into,
                                             const NextDeadline& deadline);

uint64_t bytes_of(std::span<const Buffer> buffers);
inline uint64_t bytes_of(const Buffer& buffer) { return bytes_of({&buffer, 1}); }
// Memory as an operation takes it.
inline Buffer as_bytes(void* data, uint64_t bytes) { return {data, bytes, DType::kInt8}; }

}  // namespace ffdl::elastic
