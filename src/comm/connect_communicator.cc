#include "base/errors.h"
#include "base/limits.h"
#include "comm/shm_communicator.h"

namespace ffdl {

Result<std::unique_ptr<Communicator>> connect_communicator(const World& world, Store& store,
                                                           Time deadline,
                                                           const CommunicatorOptions& options) {
  FFDL_RETURN_IF_ERROR(comm::check_world(world));
  if (options.slot_bytes < base::kSlotBytesMin || options.slot_bytes > base::kSlotBytesMax ||
      options.slot_bytes % 4096 != 0) {
    return base::invalid_argument(
        "connect generation {}: slot_bytes is {}; use {} to {}, in whole pages of 4096",
        world.generation, options.slot_bytes, base::kSlotBytesMin, base::kSlotBytesMax);
  }
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<comm::ShmMeeting> meeting,
                        comm::ShmMeeting::join(world, store, deadline, options));
  return std::unique_ptr<Communicator>(new comm::ShmCommunicator(world, std::move(meeting)));
}

}  // namespace ffdl
