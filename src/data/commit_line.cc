#include "data/commit_line.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace ffdl::data {
namespace {

using Json = nlohmann::ordered_json;

// A number that is there and not negative.
bool read_number(const Json& object, const char* key, uint64_t& number) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  number = found->get<uint64_t>();
  return true;
}

std::optional<CommittedStep::Part> read_part(const Json& part) {
  if (!part.is_array() || part.size() != 5 || !part[0].is_string()) return {};
  uint64_t numbers[4];
  for (size_t i = 0; i < 4; ++i) {
    if (!part[i + 1].is_number_unsigned()) return {};
    numbers[i] = part[i + 1].get<uint64_t>();
  }
  if (numbers[1] > std::numeric_limits<uint32_t>::max()) return {};
  CommittedStep::Part made;
  made.member = {part[0].get<std::string>(), numbers[0]};
  made.range = {static_cast<uint32_t>(numbers[1]), numbers[2], numbers[3]};
  return made;
}

}  // namespace

std::string header_line(const PartitionLedgerOptions& options) {
  return Json{{"samples", options.samples},
              {"partition_samples", options.partition_samples},
              {"epochs", options.epochs}}
      .dump();
}

std::string step_line(const CommittedStep& step) {
  Json parts = Json::array();
  for (const auto& [member, range] : step.parts) {
    parts.push_back(
        Json::array({member.id, member.incarnation, range.partition, range.begin, range.end}));
  }
  const Json line = {{"step", step.step}, {"lineage", step.lineage}, {"parts", std::move(parts)}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<CommitLine> parse_commit_line(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  CommitLine line;
  line.is_header = json.contains("samples");
  if (line.is_header) {
    if (!read_number(json, "samples", line.samples) ||
        !read_number(json, "partition_samples", line.partition_samples) ||
        !read_number(json, "epochs", line.epochs)) {
      return {};
    }
    return line;
  }
  const auto parts = json.find("parts");
  if (!read_number(json, "step", line.step.step) ||
      !read_number(json, "lineage", line.step.lineage) || parts == json.end() ||
      !parts->is_array()) {
    return {};
  }
  for (const Json& each : *parts) {
    auto part = read_part(each);
    if (!part) return {};
    line.step.parts.push_back(std::move(*part));
  }
  return line;
}

}  // namespace ffdl::data
