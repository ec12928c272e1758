#include "launch/gpu_count.h"

#include <algorithm>
#include <string_view>

namespace ffdl::launch {
namespace {

bool is_gpu(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  return std::ranges::all_of(name.substr(kPrefix.size()),
                             [](char letter) { return letter >= '0' && letter <= '9'; });
}

int count_listed(std::string_view list) {
  int count = 0;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.empty() || one.starts_with('-') || one == "NoDevFiles") break;
    ++count;
  }
  return count;
}

}  // namespace

int count_gpus(const std::optional<std::string>& visible, const std::filesystem::path& devices) {
  if (visible) return count_listed(*visible);
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(devices, ignored)) {
    if (is_gpu(entry.path().filename().string())) ++count;
  }
  return count;
}

}  // namespace ffdl::launch
