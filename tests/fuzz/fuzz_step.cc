// Reads arbitrary bytes as records of supervisors about their nodes, and as the wanted workers.
// Reads them as the steps of all members, and as the reports of members at the begin of a world.
// They are refused, or are the same when they are read again. No rank is named that does not exist.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "elastic/session/rescale.h"
#include "elastic/step/step_message.h"
#include "launch/launch_records.h"
#include "launch/wanted_workers.h"

namespace {

using namespace ffdl;

void read_launch(std::string_view text) {
  const auto node = launch::parse_node(text);
  FFDL_CHECK(node.ok() || node.status().code() == StatusCode::kCorrupt, "the only thing wrong");
  if (node.ok()) {
    const auto again = launch::parse_node(launch::encode(*node));
    FFDL_CHECK(again.ok() && launch::encode(*again) == launch::encode(*node), "it is the same");
  }
  const auto wanted = launch::parse_wanted(text);
  FFDL_CHECK(wanted.size() <= base::kRanksMax, "as many as there can be");
  const std::string written = launch::encode(wanted);
  FFDL_CHECK(launch::encode(launch::parse_wanted(written)) == written, "it is the same");
}

void read_steps(std::span<const uint8_t> bytes) {
  elastic::StepMessages messages({});
  const size_t ranks = std::min(bytes.size() / messages.bytes(), size_t{base::kRanksMax});
  if (ranks == 0) return;
  const auto all = messages.receive(static_cast<int>(ranks));
  std::memcpy(all.data(), bytes.data(), all.size());
  FFDL_CHECK(messages.ranks() == static_cast<int>(ranks), "one for each");
  FFDL_CHECK(messages.checkpoint_words().size() == ranks, "one for each");
  static_cast<void>(messages.samples());
  if (const auto next = messages.agreed_next()) {
    FFDL_CHECK(*next == messages.header(static_cast<int>(ranks) - 1).next, "all of them");
  }
  messages.apply(messages.header(0).step);
}

// Reads reports of a world whose kind is in the first byte.
void read_reports(std::span<const uint8_t> bytes) {
  if (bytes.size() <= sizeof(elastic::Report)) return;
  const uint8_t kind = bytes[0];
  bytes = bytes.subspan(1);
  std::vector<elastic::Report> reports(
      std::min(bytes.size() / sizeof(elastic::Report), size_t{base::kRanksMax}));
  std::memcpy(reports.data(), bytes.data(), reports.size() * sizeof(elastic::Report));
  World world{.generation = 3, .lineage = reports[0].lineage, .gives_up = (kind & 2) != 0};
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    world.members.push_back({"m" + std::to_string(rank), 1});
  }
  if ((kind & 1) != 0) world.state_holders = world.members;
  if ((kind & 4) != 0) {
    for (elastic::Report& report : reports) report.format = base::kProtocolVersion;
  }
  const auto plan = elastic::plan_rescale(reports, world);
  if (!plan.ok()) return;
  FFDL_CHECK(plan->from.size() == reports.size(), "one for each");
  for (const int from : plan->from) {
    FFDL_CHECK(from == elastic::RescalePlan::kOwn ||
                   plan->from[static_cast<size_t>(from)] == elastic::RescalePlan::kOwn,
               "from a member that has it");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_launch({reinterpret_cast<const char*>(data), size});
  read_steps({data, size});
  read_reports({data, size});
  return 0;
}
