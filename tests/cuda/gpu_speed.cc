#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include "base/device.h"
#include "comm/device_reduce.h"
#include "ps/device_update.h"
#include "ps/rule_arithmetic.h"

// gpu_speed [--smoke]: how many bytes per second the kernels of cuda/ move, against the GPU's own
// copy, as a page of Markdown. `./dev check gpu` keeps it. Exit codes: 1 something failed, 4 this
// machine has no GPU.
namespace ffdl {
namespace {

constexpr int kNoGpu = 4;
constexpr int kTurns = 15;

struct Size {
  uint64_t count;
  int calls;  // between two looks at the clock
};

struct Arrays {
  std::vector<base::DeviceMemory> memory{};
  uint64_t count = 0;

  float* at(size_t i) const { return reinterpret_cast<float*>(memory[i].get()); }
};

// Gigabytes per second: the median of the turns, after one that is not counted.
Result<double> speed_of(uint64_t bytes, int calls, const std::function<Status()>& call) {
  std::vector<double> speeds;
  for (int turn = 0; turn <= kTurns; ++turn) {
    FFDL_RETURN_IF_ERROR(base::wait_for_device(nullptr));
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) FFDL_RETURN_IF_ERROR(call());
    FFDL_RETURN_IF_ERROR(base::wait_for_device(nullptr));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (turn > 0) speeds.push_back(static_cast<double>(bytes) * calls / took.count() / 1e9);
  }
  std::ranges::nth_element(speeds, speeds.begin() + kTurns / 2);
  return speeds[kTurns / 2];
}

Result<Arrays> make_arrays(uint64_t count) {
  Arrays arrays{.count = count};
  const std::vector<float> zeros(count);
  for (uint32_t i = 0; i <= comm::kDeviceInputsMax; ++i) {
    FFDL_ASSIGN_OR_RETURN(auto memory, base::allocate_on_device(count * sizeof(float)));
    FFDL_RETURN_IF_ERROR(
        base::copy_on_device(memory.get(), zeros.data(), count * sizeof(float), nullptr));
    arrays.memory.push_back(std::move(memory));
  }
  FFDL_RETURN_IF_ERROR(base::wait_for_device(nullptr));
  return arrays;
}

void print_row(std::string_view what, double speed, double copy) {
  fmt::print("| {} | {:.0f} | {:.2f} |\n", what, speed, speed / copy);
}

Status print_updates(const Arrays& arrays, int calls, double copy) {
  constexpr UpdateRuleKind kRules[] = {UpdateRuleKind::kSgd,      UpdateRuleKind::kMomentum,
                                       UpdateRuleKind::kNesterov, UpdateRuleKind::kAdagrad,
                                       UpdateRuleKind::kAdam,     UpdateRuleKind::kAdamW,
                                       UpdateRuleKind::kAverage};
  for (const UpdateRuleKind kind : kRules) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const ps::DeviceUpdate update{.count = arrays.count,
                                    .gradient_type = type,
                                    .gradient = arrays.at(0),
                                    .weights = arrays.at(1),
                                    .state = {arrays.at(2), arrays.at(3)}};
      const auto in_place = static_cast<uint64_t>(1 + ps::state_count(kind));
      const uint64_t bytes = arrays.count * (in_place * 2 * sizeof(float) + element_bytes(type));
      FFDL_ASSIGN_OR_RETURN(const double speed, speed_of(bytes, calls, [&] {
                              return ps::update_on_device({.kind = kind},
                                                          {.learning_rate = 0.01F, .clip_value = 1},
                                                          update, nullptr);
                            }));
      print_row(fmt::format("{}, {} gradients", to_string(kind), to_string(type)), speed, copy);
    }
  }
  return {};
}

Status print_reductions(const Arrays& arrays, int calls, double copy) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    for (const uint32_t inputs : {2U, 4U, comm::kDeviceInputsMax}) {
      std::vector<const void*> places;
      for (uint32_t i = 0; i < inputs; ++i) places.push_back(arrays.at(i));
      const uint64_t bytes = arrays.count * (inputs + 1) * element_bytes(type);
      FFDL_ASSIGN_OR_RETURN(const double speed, speed_of(bytes, calls, [&] {
                              return comm::reduce_on_device(ReduceOp::kSum, type, places,
                                                            arrays.at(comm::kDeviceInputsMax),
                                                            arrays.count, nullptr);
                            }));
      print_row(fmt::format("sum of {}, {}", inputs, to_string(type)), speed, copy);
    }
  }
  return {};
}

Status print_all(const Size& size) {
  FFDL_ASSIGN_OR_RETURN(const auto facts, base::find_device());
  FFDL_ASSIGN_OR_RETURN(const Arrays arrays, make_arrays(size.count));
  const uint64_t array_bytes = size.count * sizeof(float);
  FFDL_ASSIGN_OR_RETURN(const double copy, speed_of(2 * array_bytes, size.calls, [&] {
                          return base::copy_on_device(arrays.at(1), arrays.at(0), array_bytes,
                                                      nullptr);
                        }));
  fmt::print("# Kernels on {}\n\n", facts.name);
  fmt::print(
      "sm_{}{}, {} multiprocessors, {:.0f} GiB; the driver knows CUDA {}, built with {}. Arrays of "
      "{} elements; each figure is the median of {} turns of {} calls. Bytes are those that must "
      "be read and written; the copy inside the GPU's memory, which counts both, is the "
      "measure.\n\n",
      facts.major, facts.minor, facts.multiprocessors,
      static_cast<double>(facts.memory_bytes) / (1 << 30), facts.driver_version,
      facts.runtime_version, size.count, kTurns, size.calls);
  fmt::print("| what | GB/s | of the copy |\n|---|---|---|\n");
  print_row("copy", copy, copy);
  FFDL_RETURN_IF_ERROR(print_updates(arrays, size.calls, copy));
  return print_reductions(arrays, size.calls, copy);
}

int run(bool smoke) {
  const auto device = base::find_device();
  if (!device.ok()) {
    fmt::print(stderr, "gpu_speed: {}\n", device.status().to_string());
    return device.status().code() == StatusCode::kUnimplemented ? kNoGpu : 1;
  }
  const Status printed = print_all(smoke ? Size{1 << 12, 2} : Size{1 << 26, 20});
  if (!printed.ok()) fmt::print(stderr, "gpu_speed: {}\n", printed.to_string());
  return printed.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) {
  return ffdl::run(argc > 1 && std::string_view(argv[1]) == "--smoke");
}
