#include <array>

#include "base/errors.h"
#include "ps/learner/learner_impl.h"
#include "ps/learner/transfer.h"
#include "ps/segment/open_waiting.h"
#include "ps/segment/pull.h"

// Pushes and pulls beside computation, from and to the memory of the host or of a device.
namespace ffdl {

using base::invalid_argument;

Result<ps::Transfer*> Learner::Impl::transfer() {
  FFDL_RETURN_IF_ERROR(check_usable("transfer beside compute"));
  if (!transfer_) {
    FFDL_ASSIGN_OR_RETURN(transfer_, ps::Transfer::begin());
  }
  return transfer_.get();
}

bool Learner::Impl::pushing_beside() const { return transfer_ && transfer_->pushing(); }

Status Learner::Impl::check_stream(base::DeviceStream stream, std::string_view doing) const {
  if (device_ || stream == nullptr) return {};
  return invalid_argument(
      "{}: a stream is given, and learner {} has no device; attach with LearnerOptions::device, or "
      "leave out the stream",
      doing, l_);
}

// Checks that memory for one dense gradient has room for all values.
Status Learner::Impl::check_landing(const Gradient& gradient) const {
  uint64_t floats = 0;
  for (const RowGradient& table : gradient.tables()) floats += table.values.size();
  for (const PartGradient& part : gradient.parts()) floats += part.values.size();
  if (floats <= config_.parameters) return {};
  return invalid_argument(
      "start_push: {} floats for {} parameters; add up repeated rows on the device first", floats,
      config_.parameters);
}

Status Learner::Impl::start_push(const Gradient& gradient, std::span<const SampleRange> samples,
                                 base::DeviceStream stream) {
  FFDL_RETURN_IF_ERROR(check_names_samples(samples));
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, this->transfer());
  FFDL_RETURN_IF_ERROR(transfer->check_no_push());
  FFDL_RETURN_IF_ERROR(check_stream(stream, "start_push"));
  FFDL_RETURN_IF_ERROR(check_dense(gradient));
  const bool lands = device_ && gradient.form() != Gradient::Form::kSlot;
  if (lands) {
    FFDL_RETURN_IF_ERROR(check_landing(gradient));
    FFDL_RETURN_IF_ERROR(device_->follow_for_push(gradient, stream));
  }
  started_.begin(gradient, samples, base_version_);
  return transfer->start_push([this, lands]() -> Result<PushResult> {
    if (lands) FFDL_RETURN_IF_ERROR(device_->land(started_));
    return push(started_.gradient(), started_.samples(), started_.version());
  });
}

Result<PushResult> Learner::Impl::finish_push(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, this->transfer());
  return transfer->finish_push(deadline);
}

Status Learner::Impl::start_pull(std::span<float> weights, PullMode mode,
                                 base::DeviceStream stream) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, this->transfer());
  FFDL_RETURN_IF_ERROR(transfer->check_no_pull());
  FFDL_RETURN_IF_ERROR(check_stream(stream, "start_pull"));
  FFDL_RETURN_IF_ERROR(ps::check_pull_size(region_, weights.size()));
  if (!device_) {
    return transfer->start_pull([this, weights, mode] { return pull(weights, mode); });
  }
  FFDL_RETURN_IF_ERROR(
      device_->follow_for_pull(std::array<const void*, 1>{weights.data()}, stream));
  return transfer->start_pull([this, weights, mode] { return device_->pull(weights, mode); });
}

Status Learner::Impl::start_pull_rows(std::span<const RowWeights> tables,
                                      base::DeviceStream stream) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, this->transfer());
  FFDL_RETURN_IF_ERROR(transfer->check_no_pull());
  FFDL_RETURN_IF_ERROR(check_stream(stream, "start_pull_rows"));
  std::vector<const void*> memory;
  for (const RowWeights& table : tables) {
    FFDL_RETURN_IF_ERROR(ps::check_pull_rows(region_, table));
    if (!table.rows.empty()) memory.push_back(table.values.data());
  }
  if (device_) FFDL_RETURN_IF_ERROR(device_->follow_for_pull(memory, stream));
  started_rows_.assign(tables.begin(), tables.end());
  started_row_numbers_.clear();
  for (const RowWeights& table : tables) {
    started_row_numbers_.insert(started_row_numbers_.end(), table.rows.begin(), table.rows.end());
  }
  const uint64_t* row = started_row_numbers_.data();
  for (RowWeights& table : started_rows_) {
    table.rows = {row, table.rows.size()};
    row += table.rows.size();
  }
  return transfer->start_pull(
      [this] { return device_ ? device_->pull_rows(started_rows_) : pull_rows(started_rows_); });
}

Result<uint64_t> Learner::Impl::finish_pull(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, this->transfer());
  FFDL_ASSIGN_OR_RETURN(base_version_, transfer->finish_pull(deadline));
  return base_version_;
}

}  // namespace ffdl
