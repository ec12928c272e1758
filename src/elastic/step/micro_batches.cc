#include "elastic/step/micro_batches.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "elastic/step/scale.h"

namespace ffdl::elastic {
namespace {

uint64_t count_of(std::span<const Buffer> buffers) {
  uint64_t count = 0;
  for (const Buffer& buffer : buffers) count += buffer.count;
  return count;
}

// Runs operations only while this life of the member lasts.
class Asking final : public Communicator {
 public:
  Asking(Communicator& of, const MicroBatches::Standing& standing) : of_(of), standing_(standing) {}

  const World& world() const override { return of_.world(); }
  Backend backend() const override { return of_.backend(); }
  Status run(const Operation& operation, Time deadline) override {
    FFDL_RETURN_IF_ERROR(standing_());
    return of_.run(operation, deadline);
  }
  void abort(Status why) override { of_.abort(std::move(why)); }

 private:
  Communicator& of_;
  const MicroBatches::Standing& standing_;
};

}  // namespace

MicroBatches::MicroBatches(const std::vector<std::span<const Buffer>>& runs, Shares shares,
                           uint64_t whole, Standing standing, base::Gpu gpu)
    : runs_(runs),
      shares_(std::move(shares)),
      whole_(static_cast<double>(whole)),
      standing_(std::move(standing)),
      gpu_(gpu) {}

uint64_t MicroBatches::share() const {
  return sums_.empty() ? 0 : sums_.front()->end() - sums_.front()->begin();
}

Status MicroBatches::begin_step(Communicator& communicator, Time deadline) {
  if (added_ > 0) return {};  // it has begun; a change of world would have dropped it
  std::vector<uint64_t> shares = shares_();
  if (!sums_.empty() && shares == present_) return {};
  drop();
  // A step without samples: all of its members have just joined.
  if (std::ranges::all_of(shares, [](uint64_t share) { return share == 0; })) return {};
  asking_ = std::make_unique<Asking>(communicator, standing_);
  MicroBatchOptions options = {.shares = shares};
  if (gpu_) options.device = gpu_.number;
  options.devices = gpu_.side;
  for (const auto run : runs_) {
    options.count = count_of(run);
    options.dtype = run.front().dtype;
    FFDL_ASSIGN_OR_RETURN(auto sum, MicroBatchSum::create(*asking_, options, deadline));
    sums_.push_back(std::move(sum));
  }
  present_ = std::move(shares);
  return {};
}

Status MicroBatches::add(uint64_t samples) {
  if (added_ < share()) return add_weighted(samples);
  return base::invalid_argument(
      "add a micro-batch: all {} micro-batches of this member were added; end the step", share());
}

// Adds in units of a whole micro-batch, so that a whole one is not scaled.
Status MicroBatches::add_weighted(uint64_t samples) {
  const double weight = static_cast<double>(samples) / whole_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (weight != 1) FFDL_RETURN_IF_ERROR(scale(gpu_, runs_[i], weight));
    FFDL_RETURN_IF_ERROR(sums_[i]->add(runs_[i]));
  }
  ++added_;
  samples_ += samples;
  return {};
}

Status MicroBatches::finish(uint64_t samples, Time deadline) {
  while (added_ < share()) FFDL_RETURN_IF_ERROR(add_weighted(0));
  added_ = samples_ = 0;
  for (size_t i = 0; i < sums_.size(); ++i) {
    FFDL_RETURN_IF_ERROR(
        sums_[i]->finish(runs_[i], deadline, static_cast<double>(samples) / whole_));
  }
  return {};
}

void MicroBatches::clear() {
  for (const auto& sum : sums_) sum->clear();
  added_ = samples_ = 0;
}

void MicroBatches::drop() {
  sums_.clear();
  added_ = samples_ = 0;
}

}  // namespace ffdl::elastic
