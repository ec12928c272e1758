#include "cuda/bench_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/array_work.h"
#include "base/device.h"
#include "comm/reduce/device_reduce.h"
#include "ffdl/ps/update_rule.h"
#include "ps/rules/rule_arithmetic.h"

namespace ffdl::bench {
namespace {

constexpr double kUpdateTarget = 0.9;
constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

// Owns arrays of zeros in the GPU's memory, each of the given number of floats.
class Arrays {
 public:
  static Result<Arrays> make(uint64_t count) {
    Arrays arrays;
    arrays.count_ = count;
    for (uint32_t i = 0; i <= comm::kDeviceInputsMax; ++i) {
      FFDL_ASSIGN_OR_RETURN(auto memory, base::allocate_on_device(count * sizeof(float)));
      FFDL_RETURN_IF_ERROR(
          base::run_on_device(base::ScaleArray{{memory.get(), count}, 0}, nullptr));
      arrays.memory_.push_back(std::move(memory));
    }
    FFDL_RETURN_IF_ERROR(base::wait_for_device(nullptr));
    return arrays;
  }

  uint64_t count() const { return count_; }
  float* at(size_t i) const { return reinterpret_cast<float*>(memory_[i].get()); }
  // Reads and writes `bytes` in total, half of them each.
  Status copy(uint64_t bytes) const {
    for (uint64_t left = bytes / 2; left > 0;) {
      const uint64_t part = std::min(left, count_ * sizeof(float));
      FFDL_RETURN_IF_ERROR(base::copy_on_device(at(1), at(0), part, nullptr));
      left -= part;
    }
    return {};
  }

 private:
  std::vector<base::DeviceMemory> memory_;
  uint64_t count_ = 0;
};

// Returns the seconds of `calls` calls, until the GPU has completed them.
Turn turn_of(int calls, std::function<Status()> call) {
  return [calls, call = std::move(call)]() -> Result<double> {
    Status status = base::wait_for_device(nullptr);
    const double seconds = seconds_of([&] {
      for (int i = 0; i < calls && status.ok(); ++i) status = call();
      if (status.ok()) status = base::wait_for_device(nullptr);
    });
    FFDL_RETURN_IF_ERROR(std::move(status));
    return seconds;
  };
}

// Adds rows of kernels over the same arrays.
class Kernels {
 public:
  Kernels(Suite& suite, const Arrays& arrays, int calls)
      : suite_(suite), arrays_(arrays), calls_(calls) {}

  // Returns a row whose calls each read and write `bytes` in total.
  PairSpec row(std::string name, uint64_t bytes, std::function<Status()> call) const {
    const double all = static_cast<double>(bytes) * calls_;
    return {.name = std::move(name),
            .unit = "GB/s",
            .figure = [all](double seconds) { return all / seconds / 1e9; },
            .subject = turn_of(calls_, std::move(call)),
            .limit = turn_of(calls_, [this, bytes] { return arrays_.copy(bytes); }),
            .limit_is = "copies inside the GPU's memory that read and write as many bytes",
            .pairs = 60};
  }

  void updates() const;
  void reductions() const;
  void gradients() const;

 private:
  void measure(PairSpec spec) const {
    if (suite_.wants(spec.name)) suite_.measure(std::move(spec));
  }

  Suite& suite_;
  const Arrays& arrays_;
  const int calls_;
};

void Kernels::updates() const {
  constexpr UpdateRuleKind kRules[] = {UpdateRuleKind::kSgd,      UpdateRuleKind::kMomentum,
                                       UpdateRuleKind::kNesterov, UpdateRuleKind::kAdagrad,
                                       UpdateRuleKind::kAdam,     UpdateRuleKind::kAdamW,
                                       UpdateRuleKind::kAverage};
  for (const UpdateRuleKind kind : kRules) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const DeviceUpdate update{.count = arrays_.count(),
                                .gradient_type = type,
                                .gradient = arrays_.at(0),
                                .weights = arrays_.at(1),
                                .state = {arrays_.at(2), arrays_.at(3)}};
      const auto in_place = static_cast<uint64_t>(1 + ps::state_count(kind));
      const uint64_t bytes = arrays_.count() * (in_place * 2 * sizeof(float) + element_bytes(type));
      PairSpec spec =
          row(fmt::format("cuda/update/{}/{}", to_string(kind), to_string(type)), bytes, [=] {
            return update_on_device({.kind = kind}, {.learning_rate = 0.01F, .clip_value = 1},
                                    update);
          });
      spec.target = Target{kUpdateTarget};
      measure(std::move(spec));
    }
  }
}

void Kernels::reductions() const {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    for (const uint32_t inputs : {2U, 4U, comm::kDeviceInputsMax}) {
      std::vector<const void*> places;
      for (uint32_t i = 0; i < inputs; ++i) places.push_back(arrays_.at(i));
      const uint64_t bytes = arrays_.count() * (inputs + 1) * element_bytes(type);
      measure(row(fmt::format("cuda/sum/{}/{}", inputs, to_string(type)), bytes, [=, this] {
        return comm::reduce_on_device(ReduceOp::kSum, type, places,
                                      arrays_.at(comm::kDeviceInputsMax), arrays_.count(), nullptr);
      }));
    }
  }
}

// Adds arithmetic with gradients. It takes half as many elements, since a sum of float64 takes the
// bytes of two arrays.
void Kernels::gradients() const {
  const uint64_t count = arrays_.count() / 2;
  for (const DType type : kFloats) {
    const uint64_t element = element_bytes(type);
    const uint64_t wide = type == DType::kFloat64 ? 8 : 4;
    const Buffer array = {arrays_.at(0), count, type};
    void* const sum = arrays_.at(1);
    const auto run = [](const base::ArrayWork& work) {
      return [work] { return base::run_on_device(work, nullptr); };
    };
    const auto name = [&](std::string_view what) {
      return fmt::format("cuda/{}/{}", what, to_string(type));
    };
    measure(row(name("scale"), count * 2 * element, run(base::ScaleArray{array, 0.5})));
    measure(row(name("add"), count * (element + 2 * wide), run(base::AddArray{sum, array, 0.5})));
    measure(row(name("divide"), count * (element + wide), run(base::DivideArray{array, sum, 2})));
    const base::SquareArray squares = {.values = array,
                                       .picks = count / base::kNormBlock,
                                       .lanes = reinterpret_cast<double*>(arrays_.at(2))};
    const uint64_t lane_bytes = squares.picks * base::kNormLanes * sizeof(double);
    measure(row(name("squares"), count * element + lane_bytes, run(squares)));
  }
}

}  // namespace

void add_kernel_rows(Suite& suite) {
  const bool smoke = suite.options().smoke;
  const auto arrays = Arrays::make(smoke ? 1 << 12 : 1 << 26);
  if (!arrays.ok()) return suite.failed("cuda/copy", arrays.status());
  const Kernels kernels(suite, *arrays, smoke ? 2 : 10);
  const uint64_t bytes = 2 * arrays->count() * sizeof(float);
  suite.self_check(kernels.row("cuda", bytes, [&] { return arrays->copy(bytes); }));
  kernels.updates();
  kernels.reductions();
  kernels.gradients();
}

}  // namespace ffdl::bench
