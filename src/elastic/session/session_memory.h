#pragma once

#include <memory>

#include "base/device_side.h"
#include "elastic/state/user_memory.h"
#include "ffdl/session.h"

namespace ffdl::elastic {

// The memory of a session's state and gradients.
struct SessionMemory {
  std::unique_ptr<UserMemory> of_both{};
  base::Gpu of_gradients{};  // none: the host's; its side belongs to `of_both`
  int device = -1;           // for a communicator of GPUs
};

// Finds the memory of the trainable's state and gradients. Asks for GPUs only if the communicator
// is for them, since that loads the driver. Errors: kInvalidArgument (gradients of two kinds of
// memory, or a user of them that cannot reach them), those of DeviceSide.
Result<SessionMemory> find_memory(const SessionOptions& options, Trainable& trainable,
                                  std::unique_ptr<base::DeviceSide> devices);

}  // namespace ffdl::elastic
