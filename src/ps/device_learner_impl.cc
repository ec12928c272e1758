#include "ps/device_learner_impl.h"

#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "ps/learner_impl.h"
#include "ps/open_waiting.h"
#include "ps/pull.h"
#include "ps/transfer.h"

namespace ffdl {

DeviceLearner::Impl::Impl(std::unique_ptr<Learner> learner, std::unique_ptr<base::DeviceSide> side,
                          int device)
    : learner_(std::move(learner)), side_(std::move(side)), device_(device) {}

// The threads use everything here, and end when the copies that they have begun have ended.
DeviceLearner::Impl::~Impl() {
  learner_->impl_->end_transfer();
  const base::DeviceUse use(*side_, device_);
  push_stream_.reset();
  pull_stream_.reset();
  pins_.clear();
  gathered_pin_.reset();
}

Result<std::unique_ptr<DeviceLearner>> DeviceLearner::Impl::attach(
    std::shared_ptr<const shm::Segment> segment, Time deadline, const DeviceLearnerOptions& options,
    std::unique_ptr<base::DeviceSide> side) {
  FFDL_ASSIGN_OR_RETURN(const int in_use, side->in_use());
  const int device = options.device < 0 ? in_use : options.device;
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<Learner::Impl> attached,
                        Learner::Impl::attach(std::move(segment), deadline, options.learner));
  auto learner = std::unique_ptr<Learner>(new Learner(std::move(attached)));
  auto impl = std::unique_ptr<Impl>(new Impl(std::move(learner), std::move(side), device));
  FFDL_RETURN_IF_ERROR(impl->prepare());
  return std::unique_ptr<DeviceLearner>(new DeviceLearner(std::move(impl)));
}

Status DeviceLearner::Impl::prepare() {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  FFDL_ASSIGN_OR_RETURN(push_stream_, side_->make_stream());
  FFDL_ASSIGN_OR_RETURN(pull_stream_, side_->make_stream());
  pin_memory();
  return {};
}

// Now, as pinning may hold up the device.
void DeviceLearner::Impl::pin_memory() {
  const ps::Region& region = learner_->impl_->region();
  // What follows the weights in the segment begins at a page.
  const uint64_t bytes = (region.offsets().padded * sizeof(float) + kPage - 1) / kPage * kPage;
  landing_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  std::byte* const weights = reinterpret_cast<std::byte*>(region.weights());
  for (std::byte* const pages : {weights, landing_.get()}) {
    Result<base::SidePin> pinned = side_->pin(pages, bytes);
    if (!pinned.ok()) {
      not_pinned_ = pinned.status().message();
      base::log_warning(
          "learner {} copies from and to memory that is not pinned, which is slower: {}",
          learner_->slot(), not_pinned_);
      return;
    }
    pins_.push_back(std::move(pinned).value());
  }
}

// What `stream` was given comes before what `side_stream` will be given.
Status DeviceLearner::Impl::begin_after(base::DeviceStream stream, base::DeviceStream side_stream,
                                        const std::vector<const void*>& memory,
                                        std::string_view doing) const {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  for (const void* const part : memory) {
    FFDL_ASSIGN_OR_RETURN(const bool held, side_->holds(part));
    if (held) continue;
    return base::invalid_argument(
        "{}: the memory is the host's; give memory of the device, or use the calls of learner()",
        doing);
  }
  return side_->follow(side_stream, stream);
}

// When it returns nothing of it is under way, whatever it returns.
Status DeviceLearner::Impl::copy_and_wait(void* to, const void* from, uint64_t bytes,
                                          base::DeviceStream stream) const {
  FFDL_RETURN_IF_ERROR(side_->copy(to, from, bytes, stream));
  return side_->wait(stream);
}

// Not into the slot: the copy engine of a process that was killed may go on for a moment, when
// somebody else has the slot already.
Status DeviceLearner::Impl::start_landing(std::span<const std::byte> gradient, uint64_t elements,
                                          base::DeviceStream stream,
                                          std::function<Result<PushResult>()> push_landed) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner_->impl_->transfer());
  FFDL_RETURN_IF_ERROR(learner_->impl_->check_size(elements));
  FFDL_RETURN_IF_ERROR(begin_after(stream, push_stream_.get(), {gradient.data()}, "start_push"));
  return transfer->start_push_by(
      [this, gradient, push_landed = std::move(push_landed)]() -> Result<PushResult> {
        FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
        FFDL_RETURN_IF_ERROR(
            copy_and_wait(landing_.get(), gradient.data(), gradient.size(), push_stream_.get()));
        return push_landed();
      });
}

Status DeviceLearner::Impl::start_push(std::span<const float> gradient, base::DeviceStream stream,
                                       std::span<const SampleRange> samples) {
  Learner::Impl& learner = *learner_->impl_;
  const std::span landed(reinterpret_cast<const float*>(landing_.get()), gradient.size());
  return start_landing(
      std::as_bytes(gradient), gradient.size(), stream,
      [&learner, landed, named = std::vector(samples.begin(), samples.end()),
       version = learner.base_version()] { return learner.push(landed, named, version); });
}

Status DeviceLearner::Impl::start_push_halves(GradientType type, std::span<const uint16_t> gradient,
                                              base::DeviceStream stream,
                                              std::span<const SampleRange> samples) {
  Learner::Impl& learner = *learner_->impl_;
  const std::span landed(reinterpret_cast<const uint16_t*>(landing_.get()), gradient.size());
  return start_landing(std::as_bytes(gradient), gradient.size(), stream,
                       [&learner, type, landed, named = std::vector(samples.begin(), samples.end()),
                        version = learner.base_version()] {
                         return learner.push_halves(type, landed, named, version);
                       });
}

// A sparse gradient on its way: what it is in the device's memory, and the parts that it will have
// in landing_, where they lie one after the other.
struct DeviceLearner::Impl::LandingParts {
  // The part of landing_ for `values` of the device.
  std::span<const float> place(std::span<const float> values, float* landing) {
    if (!values.empty()) on_device.push_back(values);
    const std::span<const float> landed(landing + floats, values.size());
    floats += values.size();
    return landed;
  }

  std::vector<std::span<const float>> on_device{};
  uint64_t floats = 0;
  std::vector<std::vector<uint64_t>> rows{};
  std::vector<RowGradient> tables{};
  std::vector<DenseGradient> dense{};
  std::vector<SampleRange> samples{};
  uint64_t version = 0;
};

Status DeviceLearner::Impl::start_push_sparse(const SparseGradient& gradient,
                                              base::DeviceStream stream,
                                              std::span<const SampleRange> samples) {
  Learner::Impl& learner = *learner_->impl_;
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner.transfer());
  // Shared, as what is called on the thread of the pushes must be copyable.
  const auto parts = std::make_shared<LandingParts>();
  uint64_t floats = 0;
  for (const RowGradient& table : gradient.tables) floats += table.values.size();
  for (const DenseGradient& dense : gradient.dense) floats += dense.values.size();
  if (const uint64_t parameters = learner.region().config().parameters; floats > parameters) {
    return base::invalid_argument(
        "start_push_sparse: {} floats for {} parameters; add up on the device rows that come again",
        floats, parameters);
  }
  auto* const landing = reinterpret_cast<float*>(landing_.get());
  for (const RowGradient& table : gradient.tables) {
    const auto& rows = parts->rows.emplace_back(table.rows.begin(), table.rows.end());
    parts->tables.push_back({.table = table.table,
                             .row_size = table.row_size,
                             .rows = rows,
                             .values = parts->place(table.values, landing)});
  }
  for (const DenseGradient& dense : gradient.dense) {
    parts->dense.push_back({.begin = dense.begin, .values = parts->place(dense.values, landing)});
  }
  parts->samples.assign(samples.begin(), samples.end());
  parts->version = learner.base_version();
  std::vector<const void*> memory;
  for (const std::span<const float> values : parts->on_device) memory.push_back(values.data());
  FFDL_RETURN_IF_ERROR(begin_after(stream, push_stream_.get(), memory, "start_push_sparse"));
  return transfer->start_push_by([this, parts] { return push_parts(*parts); });
}

// All copies are under way together, so that they follow each other without a pause.
Result<PushResult> DeviceLearner::Impl::push_parts(const LandingParts& parts) {
  FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
  std::byte* landing = landing_.get();
  Status begun;
  for (const std::span<const float> values : parts.on_device) {
    begun = side_->copy(landing, values.data(), values.size_bytes(), push_stream_.get());
    if (!begun.ok()) break;
    landing += values.size_bytes();
  }
  const Status ended = side_->wait(push_stream_.get());  // in any case: nothing is under way then
  FFDL_RETURN_IF_ERROR(begun);
  FFDL_RETURN_IF_ERROR(ended);
  return learner_->impl_->push_sparse({.tables = parts.tables, .dense = parts.dense}, parts.samples,
                                      parts.version);
}

Status DeviceLearner::Impl::start_pull(std::span<float> weights, base::DeviceStream stream,
                                       PullMode mode) {
  Learner::Impl& learner = *learner_->impl_;
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner.transfer());
  FFDL_RETURN_IF_ERROR(ps::check_pull_size(learner.region(), weights.size()));
  FFDL_RETURN_IF_ERROR(begin_after(stream, pull_stream_.get(), {weights.data()}, "start_pull"));
  return transfer->start_pull_by([this, weights, mode] { return pull(weights, mode); });
}

// pull_weights() looks at a shard's sequence lock before the copy is given to the device, and again
// when the device has made it: only then is it known that nothing changed meanwhile.
Result<uint64_t> DeviceLearner::Impl::pull(std::span<float> weights, PullMode mode) const {
  FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
  // A server that is asked for a pause must not pause for what the device computes before.
  FFDL_RETURN_IF_ERROR(side_->wait(pull_stream_.get()));
  const ps::Region& region = learner_->impl_->region();
  return ps::pull_weights(region, mode, [&](uint64_t begin, uint64_t count) {
    return copy_and_wait(weights.data() + begin, region.weights() + begin, count * sizeof(float),
                         pull_stream_.get());
  });
}

// What one table's rows need until they are there.
struct DeviceLearner::Impl::WantedRows {
  ps::TableRows wanted() const { return {table, row_size, rows}; }

  uint64_t table;
  uint64_t row_size;
  std::vector<uint64_t> rows;
  float* to;
};

Status DeviceLearner::Impl::start_pull_rows(std::span<const DeviceRows> tables,
                                            base::DeviceStream stream) {
  Learner::Impl& learner = *learner_->impl_;
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner.transfer());
  std::vector<WantedRows> wanted;
  std::vector<const void*> memory;
  for (const DeviceRows& rows : tables) {
    FFDL_RETURN_IF_ERROR(ps::check_pull_rows(
        learner.region(), {rows.table, rows.row_size, rows.rows}, rows.to.size()));
    if (rows.rows.empty()) continue;
    wanted.push_back(
        {rows.table, rows.row_size, {rows.rows.begin(), rows.rows.end()}, rows.to.data()});
    memory.push_back(rows.to.data());
  }
  FFDL_RETURN_IF_ERROR(begin_after(stream, pull_stream_.get(), memory, "start_pull_rows"));
  return transfer->start_pull_by([this, wanted = std::move(wanted)] { return pull_rows(wanted); });
}

Result<uint64_t> DeviceLearner::Impl::pull_rows(const std::vector<WantedRows>& tables) {
  FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
  // Gathered when they are wanted, not while the device still computes what comes before.
  FFDL_RETURN_IF_ERROR(side_->wait(pull_stream_.get()));
  const ps::Region& region = learner_->impl_->region();
  uint64_t bytes = 0;
  for (const WantedRows& table : tables) bytes += table.wanted().floats() * sizeof(float);
  make_room_to_gather(bytes);
  const uint64_t version = region.version();
  std::byte* gathered = gathered_.get();
  Status begun;
  for (const WantedRows& table : tables) {
    const uint64_t size = table.wanted().floats() * sizeof(float);
    ps::pull_rows(region, table.wanted(), reinterpret_cast<float*>(gathered));
    begun = side_->copy(table.to, gathered, size, pull_stream_.get());
    if (!begun.ok()) break;
    gathered += size;
  }
  const Status ended = side_->wait(pull_stream_.get());  // in any case: nothing is under way then
  FFDL_RETURN_IF_ERROR(begun);
  FFDL_RETURN_IF_ERROR(ended);
  return version;
}

// Twice what is needed, as the next mini-batch may have more rows. On the thread of the pulls, of
// which one is under way at a time.
void DeviceLearner::Impl::make_room_to_gather(uint64_t bytes) {
  if (bytes <= gathered_bytes_) return;
  gathered_pin_.reset();
  gathered_bytes_ = (2 * bytes + kPage - 1) / kPage * kPage;
  gathered_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, gathered_bytes_)));
  if (!not_pinned_.empty()) return;  // it was said
  Result<base::SidePin> pinned = side_->pin(gathered_.get(), gathered_bytes_);
  if (pinned.ok()) {
    gathered_pin_ = std::move(pinned).value();
  } else {
    base::log_warning("learner {} gathers rows in memory that is not pinned, which is slower: {}",
                      learner_->slot(), pinned.status().message());
  }
}

Result<uint64_t> DeviceLearner::Impl::finish_pull(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner_->impl_->transfer());
  FFDL_ASSIGN_OR_RETURN(const uint64_t version, transfer->finish_pull_by(deadline));
  learner_->impl_->set_base_version(version);
  return version;
}

}  // namespace ffdl
