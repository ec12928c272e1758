#include "launch/wanted_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/limits.h"

namespace ffdl::launch {
namespace {

constexpr std::string_view kPrefix = "worker-";

// Takes a number off the front of a text.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > static_cast<int>(base::kRanksMax)) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

// Clears takes_over_from where the predecessor is wanted itself.
void forget_predecessors_that_stay(WantedWorkers& wanted) {
  for (WantedWorker& worker : wanted) {
    if (place_of(wanted, worker.takes_over_from) >= 0) worker.takes_over_from = -1;
  }
}

bool is_plain(const WantedWorkers& wanted) {
  for (size_t place = 0; place < wanted.size(); ++place) {
    if (wanted[place].number != static_cast<int>(place) || wanted[place].takes_over_from >= 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

WantedWorkers first_workers(int count) { return scaled({}, count); }

int place_of(const WantedWorkers& wanted, int number) {
  const auto found = std::find_if(wanted.begin(), wanted.end(), [&](const WantedWorker& worker) {
    return worker.number == number;
  });
  return found == wanted.end() ? -1 : static_cast<int>(found - wanted.begin());
}

std::string id_of(int number) { return fmt::format("{}{}", kPrefix, number); }

int number_of(std::string_view id) {
  if (!id.starts_with(kPrefix)) return -1;
  id.remove_prefix(kPrefix.size());
  const auto number = take_number(id);
  return number && id.empty() ? *number : -1;
}

std::set<int> handing_over(const RunStatus& run) {
  std::set<int> numbers;
  for (const WantedWorker& worker : run.wanted_workers) {
    if (worker.takes_over_from >= 0) numbers.insert(worker.takes_over_from);
  }
  for (const NodeStatus& node : run.nodes) {
    for (const WorkerStatus& worker : node.workers) {
      const int place = place_of(run.wanted_workers, number_of(worker.id));
      if (place < 0 || worker.phase != "finished") continue;
      numbers.erase(run.wanted_workers[static_cast<size_t>(place)].takes_over_from);
    }
  }
  return numbers;
}

WantedWorkers scaled(WantedWorkers wanted, int count) {
  const auto size = static_cast<size_t>(std::max(count, 0));
  if (wanted.size() > size) wanted.resize(size);
  for (int number = 0; wanted.size() < size; ++number) {
    if (place_of(wanted, number) < 0) wanted.push_back({number});
  }
  forget_predecessors_that_stay(wanted);
  return wanted;
}

WantedWorkers moved(WantedWorkers wanted, int from, int to) {
  wanted[static_cast<size_t>(place_of(wanted, from))] = {to, from};
  forget_predecessors_that_stay(wanted);
  return wanted;
}

std::string encode(const WantedWorkers& wanted) {
  std::string text = std::to_string(wanted.size());
  if (is_plain(wanted)) return text;
  text += ':';
  for (const WantedWorker& worker : wanted) {
    text += fmt::format(" {}", worker.number);
    if (worker.takes_over_from >= 0) text += fmt::format("<{}", worker.takes_over_from);
  }
  return text;
}

WantedWorkers parse_wanted(std::string_view text) {
  const auto count = take_number(text);
  if (!count) return {};
  if (text.empty()) return first_workers(*count);
  if (!take(text, ':')) return {};
  WantedWorkers wanted;
  while (take(text, ' ')) {
    const auto number = take_number(text);
    if (!number || place_of(wanted, *number) >= 0) return {};
    wanted.push_back({*number});
    if (!take(text, '<')) continue;
    const auto from = take_number(text);
    if (!from) return {};
    wanted.back().takes_over_from = *from;
  }
  return text.empty() && wanted.size() == static_cast<size_t>(*count) ? wanted : WantedWorkers();
}

}  // namespace ffdl::launch
