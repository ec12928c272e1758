#include "elastic/step/gradient_exchange.h"

#include <utility>

#include "base/errors.h"
#include "elastic/step/gradient_sum.h"

namespace ffdl::elastic {
namespace {

Status check_sum(uint64_t samples, uint64_t added) {
  if (samples == 0 || samples == added) return {};
  return base::invalid_argument(
      "end a step of {} samples: micro-batches with {} samples were added; give end_step() the sum "
      "of their samples",
      samples, added);
}

// Exchanges gradients that a member gives at once, or in parts that it adds up.
class WholeExchange : public GradientExchange {
 public:
  WholeExchange(const Options& options, Seams seams)
      : GradientExchange(options, std::move(seams)), parts_(options.gradients, options.gpu) {}

  Status add(uint64_t samples) override { return parts_.add(samples); }
  bool has_begun() const override { return has_noted() || has_parts(); }
  Status combine(uint64_t samples) override {
    if (!has_parts()) return {};
    if (samples > 0) return parts_.finish();
    parts_.drop();  // the samples belong to another member now
    return {};
  }

 protected:
  bool has_parts() const { return parts_.samples() > 0; }
  Status check_added(uint64_t samples) const override {
    return has_parts() ? check_sum(samples, parts_.samples()) : Status();
  }

 private:
  GradientSum parts_;  // of this member's share
};

// Exchanges whole gradients, or buckets of them while the caller computes others.
class BucketExchange final : public WholeExchange {
 public:
  using WholeExchange::WholeExchange;

  Status add(uint64_t samples) override {
    if (!has_noted()) return WholeExchange::add(samples);
    return base::invalid_argument(
        "add a micro-batch: begin_average() was called in this step, and other members may have "
        "received those gradients; use only one of the two calls in a step");
  }
  Status note(size_t end, uint64_t samples) override {
    if (has_parts()) {
      return base::invalid_argument(
          "begin to average: micro-batches were added in this step, and end_step() averages them; "
          "use only one of the two calls in a step");
    }
    FFDL_RETURN_IF_ERROR(check_known("average gradients over", samples));
    return averaging_.note(end, samples);
  }
};

// Exchanges gradients in micro-batches of the job, whose sum does not depend on the members.
class MicroBatchExchange final : public GradientExchange {
 public:
  MicroBatchExchange(const Options& options, Seams seams)
      : GradientExchange(options, std::move(seams)),
        micro_batches_(buckets_, options.micro_batch_shares, options.micro_batch_samples,
                       seams_.life_status, options.gpu) {}

  Status add(uint64_t samples) override {
    if (failed_.ok()) failed_ = begin_step();
    return failed_.ok() ? micro_batches_.add(samples) : Status();
  }
  bool has_begun() const override { return micro_batches_.has_added(); }
  Status combine(uint64_t samples) override {
    if (samples == 0) micro_batches_.clear();
    return {};
  }
  Status take_failure() override { return std::exchange(failed_, Status()); }
  Status begin_step() override {
    FFDL_ASSIGN_OR_RETURN(const auto communicator, seams_.arrive());
    return micro_batches_.begin_step(*communicator, seams_.deadline());
  }
  Status average(Communicator& /*communicator*/) override {
    const uint64_t sum = messages_.samples();
    if (sum > 0) FFDL_RETURN_IF_ERROR(micro_batches_.finish(sum, seams_.deadline()));
    if (sum == 0) micro_batches_.drop();
    return seams_.life_status();
  }
  bool is_intact() const override { return false; }
  void change_world() override {
    GradientExchange::change_world();
    micro_batches_.drop();
  }

 protected:
  Status check_added(uint64_t samples) const override {
    return failed_.ok() ? check_sum(samples, micro_batches_.samples()) : Status();
  }

 private:
  MicroBatches micro_batches_;
  Status failed_;  // in this step; its end handles it
};

}  // namespace

std::unique_ptr<GradientExchange> GradientExchange::create(Options options, Seams seams) {
  if (options.micro_batch_shares) {
    return std::make_unique<MicroBatchExchange>(options, std::move(seams));
  }
  if (options.bucket_bytes > 0) return std::make_unique<BucketExchange>(options, std::move(seams));
  return std::make_unique<WholeExchange>(options, std::move(seams));
}

GradientExchange::GradientExchange(const Options& options, Seams seams)
    : seams_(std::move(seams)),
      participants_(options.participants),
      buckets_(cut_buckets(options.gradients, options.bucket_bytes)),
      messages_(participants_.all()),
      averaging_(buckets_, messages_,
                 {seams_.runtime, seams_.life_status, seams_.deadline, options.gpu}) {}

Status GradientExchange::note(size_t /*end*/, uint64_t /*samples*/) {
  return base::invalid_argument(
      "begin to average: the session was opened without SessionOptions::bucket_bytes; set "
      "bucket_bytes");
}

void GradientExchange::run_early(const std::function<FirstOperation()>& first) {
  if (!averaging_.has_started()) {
    FirstOperation operation = first();
    averaging_.start(std::move(operation.communicator), operation.message);
  }
  averaging_.go_on();
}

Status GradientExchange::check_known(std::string_view doing, uint64_t samples) const {
  const auto known = participants_.step_samples();
  if (!known || *known == samples) return {};
  return base::invalid_argument(
      "{} {} samples: the ledger gave this member {} for the step; give that number, or call "
      "end_step() without one",
      doing, samples, *known);
}

Status GradientExchange::check_samples(uint64_t samples) const {
  if (samples > 0) FFDL_RETURN_IF_ERROR(check_known("end a step of", samples));
  const auto noted = averaging_.noted_samples();
  if (noted && *noted != samples) {
    return base::invalid_argument(
        "end a step of {} samples: begin_average() was called with {}; give both calls the number "
        "of all of this member's samples of the step",
        samples, *noted);
  }
  return check_added(samples);
}

Status GradientExchange::begin_step() { return seams_.arrive().status(); }

bool GradientExchange::pause(Time deadline) {
  if (!averaging_.pause(deadline)) return false;
  early_buckets_ += averaging_.buckets_averaged();
  return true;
}

Status GradientExchange::gather(Communicator& communicator, std::span<std::byte> message,
                                uint64_t samples) {
  return averaging_.gather(communicator, message, samples);
}

Status GradientExchange::average(Communicator& communicator) {
  return averaging_.average(communicator);
}

}  // namespace ffdl::elastic
