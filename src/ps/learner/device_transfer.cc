#include "ps/learner/device_transfer.h"

#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "ps/segment/pull.h"

namespace ffdl::ps {

DeviceTransfer::~DeviceTransfer() {
  const base::DeviceUse use(*side_, device_);
  push_stream_.reset();
  pull_stream_.reset();
  pins_.clear();
  gathered_pin_.reset();
}

Result<std::unique_ptr<DeviceTransfer>> DeviceTransfer::begin(
    const Region& region, int slot, std::unique_ptr<base::DeviceSide> side, int device) {
  auto made =
      std::unique_ptr<DeviceTransfer>(new DeviceTransfer(region, slot, std::move(side), device));
  FFDL_RETURN_IF_ERROR(made->prepare());
  return made;
}

Status DeviceTransfer::prepare() {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  FFDL_ASSIGN_OR_RETURN(push_stream_, side_->make_stream());
  FFDL_ASSIGN_OR_RETURN(pull_stream_, side_->make_stream());
  pin_memory();
  return {};
}

// Pins the memory at once, since pinning may block the device.
void DeviceTransfer::pin_memory() {
  // The data after the weights in the segment begins at a page.
  const uint64_t bytes = (region_.offsets().padded * sizeof(float) + kPage - 1) / kPage * kPage;
  landing_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  std::byte* const weights = reinterpret_cast<std::byte*>(region_.weights());
  for (std::byte* const pages : {weights, landing_.get()}) {
    Result<base::SidePin> pinned = side_->pin(pages, bytes);
    if (!pinned.ok()) {
      not_pinned_ = pinned.status().message();
      base::log_warning(
          "learner {} copies from and to memory that is not pinned, which is slower: {}", slot_,
          not_pinned_);
      return;
    }
    pins_.push_back(std::move(pinned).value());
  }
}

// Orders all earlier work on `stream` before later work on `side_stream`.
Status DeviceTransfer::follow(base::DeviceStream stream, base::DeviceStream side_stream,
                              std::span<const void* const> memory, std::string_view doing) const {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  for (const void* const part : memory) {
    FFDL_ASSIGN_OR_RETURN(const bool held, side_->holds(part));
    if (held) continue;
    return base::invalid_argument(
        "start_{0}: the memory is the host's; give memory of the device, or use {0}()", doing);
  }
  return side_->follow(side_stream, stream);
}

Status DeviceTransfer::follow_for_push(const Gradient& gradient, base::DeviceStream stream) {
  std::vector<const void*> memory;
  if (gradient.form() == Gradient::Form::kDense) memory.push_back(gradient.values());
  for (const RowGradient& table : gradient.tables()) {
    if (!table.values.empty()) memory.push_back(table.values.data());
  }
  for (const PartGradient& part : gradient.parts()) {
    if (!part.values.empty()) memory.push_back(part.values.data());
  }
  return follow(stream, push_stream_.get(), memory, "push");
}

Status DeviceTransfer::follow_for_pull(std::span<const void* const> memory,
                                       base::DeviceStream stream) {
  return follow(stream, pull_stream_.get(), memory, "pull");
}

// Copies and waits. When it returns, no copy is in progress, even after an error.
Status DeviceTransfer::copy_and_wait(void* to, const void* from, uint64_t bytes,
                                     base::DeviceStream stream) const {
  FFDL_RETURN_IF_ERROR(side_->copy(to, from, bytes, stream));
  return side_->wait(stream);
}

// Copies the gradient to landing_, not to the slot. The copy engine of a killed process may
// continue for a moment, when another process already has the slot.
Status DeviceTransfer::land(StartedPush& push) {
  FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
  const Status begun = copy_values(push.gradient());
  const Status ended = side_->wait(push_stream_.get());  // also after an error: ends all copies
  FFDL_RETURN_IF_ERROR(begun);
  FFDL_RETURN_IF_ERROR(ended);
  push.move_values_to(landing_.get());
  return {};
}

// Starts all copies before land() waits, so that they follow each other without a pause.
Status DeviceTransfer::copy_values(const Gradient& gradient) {
  std::byte* landing = landing_.get();
  const auto copy = [&](const void* from, uint64_t bytes) -> Status {
    if (bytes == 0) return {};
    std::byte* const to = landing;
    landing += bytes;
    return side_->copy(to, from, bytes, push_stream_.get());
  };
  if (gradient.form() == Gradient::Form::kDense) {
    return copy(gradient.values(), gradient.count() * element_bytes(gradient.type()));
  }
  for (const RowGradient& table : gradient.tables()) {
    FFDL_RETURN_IF_ERROR(copy(table.values.data(), table.values.size_bytes()));
  }
  for (const PartGradient& part : gradient.parts()) {
    FFDL_RETURN_IF_ERROR(copy(part.values.data(), part.values.size_bytes()));
  }
  return {};
}

// Pulls weights to the device. pull_weights() checks a shard's sequence lock before the copy is
// enqueued and after the device has made it. Only the second check proves that nothing changed
// meanwhile.
Result<uint64_t> DeviceTransfer::pull(std::span<float> weights, PullMode mode) {
  FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
  // Waits for earlier work of the device, which a server must not pause for.
  FFDL_RETURN_IF_ERROR(side_->wait(pull_stream_.get()));
  return pull_weights(region_, mode, [&](uint64_t begin, uint64_t count) {
    return copy_and_wait(weights.data() + begin, region_.weights() + begin, count * sizeof(float),
                         pull_stream_.get());
  });
}

// The processor gathers the rows, and one copy for each table moves them.
Result<uint64_t> DeviceTransfer::pull_rows(std::span<const RowWeights> tables) {
  FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
  // Waits for earlier work of the device, so that rows are gathered as late as possible.
  FFDL_RETURN_IF_ERROR(side_->wait(pull_stream_.get()));
  uint64_t bytes = 0;
  for (const RowWeights& table : tables) bytes += table.values.size_bytes();
  make_room_to_gather(bytes);
  const uint64_t version = region_.version();
  std::byte* gathered = gathered_.get();
  Status begun;
  for (const RowWeights& table : tables) {
    if (table.rows.empty()) continue;
    copy_rows(region_, table, reinterpret_cast<float*>(gathered));
    begun =
        side_->copy(table.values.data(), gathered, table.values.size_bytes(), pull_stream_.get());
    if (!begun.ok()) break;
    gathered += table.values.size_bytes();
  }
  const Status ended = side_->wait(pull_stream_.get());  // also after an error: ends all copies
  FFDL_RETURN_IF_ERROR(begun);
  FFDL_RETURN_IF_ERROR(ended);
  return version;
}

// Allocates twice the required size, as the next mini-batch may have more rows. Runs on the pull
// thread, which has one pull at a time.
void DeviceTransfer::make_room_to_gather(uint64_t bytes) {
  if (bytes <= gathered_bytes_) return;
  gathered_pin_.reset();
  gathered_bytes_ = (2 * bytes + kPage - 1) / kPage * kPage;
  gathered_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, gathered_bytes_)));
  if (!not_pinned_.empty()) return;  // already logged
  Result<base::SidePin> pinned = side_->pin(gathered_.get(), gathered_bytes_);
  if (pinned.ok()) {
    gathered_pin_ = std::move(pinned).value();
  } else {
    base::log_warning("learner {} gathers rows in memory that is not pinned, which is slower: {}",
                      slot_, pinned.status().message());
  }
}

}  // namespace ffdl::ps
