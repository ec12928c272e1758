#include <algorithm>

#include "base/errors.h"
#include "elastic/session_impl.h"
#include "elastic/staged_memory.h"

// What a session asks about the memory of its state and gradients.
namespace ffdl {
namespace {

// Buffers without elements lie nowhere.
Result<size_t> count_on_device(base::DeviceSide& devices, std::span<const Buffer> buffers) {
  size_t count = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.count == 0) continue;
    FFDL_ASSIGN_OR_RETURN(const bool on_device, devices.holds(buffer.data));
    if (on_device) ++count;
  }
  return count;
}

// Who looks at gradients knows where they lie.
Status check_users_of_gradients(const SessionOptions& options) {
  for (const StepParticipant* participant : options.participants) {
    if (!participant->reads_gradients() || participant->reads_gradients_on_device()) continue;
    return base::invalid_argument(
        "gradients in a GPU's memory, and a participant that reads those in the host's, such as a "
        "GradientNoise whose options name no device; name it there");
  }
  if (options.shared_memory.empty()) return {};
  return base::invalid_argument(
      "gradients in a GPU's memory, and shared_memory for them to lie in; leave one of them out");
}

}  // namespace

// GPUs are asked only where the communicator is for them: that loads the driver.
Result<Session::Impl::Memory> Session::Impl::find_memory(
    const SessionOptions& options, Trainable& trainable,
    std::unique_ptr<base::DeviceSide> devices) {
  Memory memory = {.of_both = std::make_unique<elastic::HostMemory>()};
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
        "{} of {} gradients lie in a GPU's memory; give all of them to one side", of_gradients,
        all);
  }
  if (of_gradients > 0) {
    FFDL_RETURN_IF_ERROR(check_users_of_gradients(options));
    memory.of_gradients = {devices.get(), memory.device};
  }
  if (of_state + of_gradients == 0) return memory;
  base::ChosenGpu chosen = {std::move(devices), {}};
  chosen.gpu = {chosen.own_side.get(), memory.device};
  FFDL_ASSIGN_OR_RETURN(memory.of_both, elastic::StagedMemory::create(std::move(chosen)));
  return memory;
}

// Of a factory of the user's.
Status Session::Impl::check_reach() {
  if (!memory_.of_gradients || reaches_devices(communicator()->backend())) return {};
  return base::invalid_argument(
      "join job '{}' as '{}': gradients lie in a GPU's memory, and what SessionOptions::connect "
      "made is a communicator that works in the host's; make one of kNccl or kDeviceShm",
      options_.membership.job, options_.self.id);
}

}  // namespace ffdl
