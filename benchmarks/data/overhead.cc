#include "benchmarks/data/overhead.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/data/reading_job.h"
#include "benchmarks/dense_net.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/limits.h"

namespace ffdl::bench {
namespace {

// The computation of a step, as long as that of a small network for a mini-batch.
class Trainer {
 public:
  Trainer() : net_(2, 512, 32), weights_(net_.parameters()), gradient_(net_.parameters()) {
    net_.initialise(weights_);
  }

  void step() {
    net_.compute(weights_, gradient_);
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] -= 1e-6F * gradient_[i];
  }

 private:
  DenseNet net_;
  std::vector<float> weights_;
  std::vector<float> gradient_;
};

Status overhead_row(Suite& suite) {
  const std::string name = "data/commit_overhead";
  if (!suite.wants(name)) return {};
  FFDL_ASSIGN_OR_RETURN(const auto file,
                        RecordFile::make(suite.options().smoke ? tiny(kSmall) : kSmall));
  const Shape& shape = file->shape();
  FFDL_ASSIGN_OR_RETURN(const auto reading,
                        Reading::open(file->path(), shape, {true, {.threads = 0}}));
  FFDL_ASSIGN_OR_RETURN(auto order, reading->order());
  // The partition that is shorter than a turn goes last, so that all turns read one partition.
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    return a / shape.partition < b / shape.partition;
  });
  FFDL_ASSIGN_OR_RETURN(
      const auto split,
      open_records({file->path()}, {.record_bytes = shape.record_bytes}, {.mapped = true}));
  Trainer trainer;
  // A turn is a partition, which the pipeline also reads at once.
  const size_t steps = std::max<size_t>(1, std::min(shape.partition, order.size()) / shape.batch);
  const size_t turn = steps * shape.batch;
  uint64_t sum = 0;
  size_t next = 0;
  SampleBatch batch;
  suite.measure(PairSpec{
      .name = name,
      .unit = "steps/s",
      .figure = [&](double seconds) { return static_cast<double>(steps) / seconds; },
      .subject = [&]() -> Result<double> {
        const auto begin = std::chrono::steady_clock::now();
        for (size_t i = 0; i < steps; ++i) {
          FFDL_ASSIGN_OR_RETURN(const uint64_t part, reading->sum_of_batch());
          sum += part;
          trainer.step();
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      },
      .limit = [&]() -> Result<double> {
        const auto begin = std::chrono::steady_clock::now();
        if (next + turn > order.size()) next = 0;
        batch.clear();
        FFDL_RETURN_IF_ERROR(split->read(std::span(order).subspan(next, turn), batch));
        next += turn;
        for (const auto& stretch : batch.stretches()) sum += sum_of(stretch);
        for (size_t sample = 0; sample < turn; ++sample) {
          sum += sum_of(batch[sample]);
          if (sample % shape.batch == 0) trainer.step();
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      },
      .limit_is = "the same loop over a list of samples that was made before, read by partition",
      .pairs = suite.options().smoke ? 3 : 2000,
      .target = Target{0.995, false},
      .note = "steps of 256 small records and a network of half a million parameters, with the "
              "ledger's "
              "take, describe and applied"});
  return {};
}

}  // namespace

void overhead_rows(Suite& suite) {
  if (const Status status = overhead_row(suite); !status.ok()) {
    suite.failed("data/commit_overhead", status);
  }
}

}  // namespace ffdl::bench
