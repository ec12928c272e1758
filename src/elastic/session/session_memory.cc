#include "elastic/session/session_memory.h"

#include <algorithm>

#include "base/errors.h"
#include "elastic/state/staged_memory.h"

namespace ffdl::elastic {
namespace {

// Counts the buffers in GPU memory. Buffers without elements have no place.
Result<size_t> count_on_device(base::DeviceSide& devices, std::span<const Buffer> buffers) {
  size_t count = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.count == 0) continue;
    FFDL_ASSIGN_OR_RETURN(const bool on_device, devices.holds(buffer.data));
    if (on_device) ++count;
  }
  return count;
}

// Checks that all users of GPU gradients can reach them.
Status check_users_of_gradients(const SessionOptions& options) {
  for (const StepParticipant* participant : options.participants) {
    if (!participant->reads_gradients() || participant->reads_gradients_on_device()) continue;
    return base::invalid_argument(
        "the gradients are in a GPU's memory, but a participant reads gradients in the host's, "
        "as a GradientNoise without a device does; set the device in its options");
  }
  if (options.shared_memory.empty()) return {};
  return base::invalid_argument(
      "the gradients are in a GPU's memory, and shared_memory of the host is set for them; leave "
      "one of them out");
}

}  // namespace

Result<SessionMemory> find_memory(const SessionOptions& options, Trainable& trainable,
                                  std::unique_ptr<base::DeviceSide> devices) {
  SessionMemory memory = {.of_both = std::make_unique<HostMemory>()};
  if (!reaches_devices(options.communicator.backend)) return memory;
  memory.device = options.communicator.device;
  if (memory.device < 0) {
    FFDL_ASSIGN_OR_RETURN(memory.device, devices->in_use());
  }
  const std::vector<Buffer> gradients = trainable.gradients();
  size_t of_state = 0;
  size_t of_gradients = 0;
  {
    const base::DeviceUse use(*devices, memory.device);
    FFDL_RETURN_IF_ERROR(use.status());
    FFDL_ASSIGN_OR_RETURN(of_state, count_on_device(*devices, trainable.state()));
    FFDL_ASSIGN_OR_RETURN(of_gradients, count_on_device(*devices, gradients));
  }
  const auto all = static_cast<size_t>(
      std::ranges::count_if(gradients, [](const Buffer& buffer) { return buffer.count > 0; }));
  if (of_gradients > 0 && of_gradients < all) {
    return base::invalid_argument(
        "{} of {} gradients are in a GPU's memory; put all of them into a GPU's memory, or all "
        "into the host's",
        of_gradients, all);
  }
  if (of_gradients > 0) {
    FFDL_RETURN_IF_ERROR(check_users_of_gradients(options));
    memory.of_gradients = {devices.get(), memory.device};
  }
  if (of_state + of_gradients == 0) return memory;
  base::ChosenGpu chosen = {std::move(devices), {}};
  chosen.gpu = {chosen.own_side.get(), memory.device};
  FFDL_ASSIGN_OR_RETURN(memory.of_both, StagedMemory::create(std::move(chosen)));
  return memory;
}

}  // namespace ffdl::elastic
