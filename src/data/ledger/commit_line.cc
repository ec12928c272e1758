#include "data/ledger/commit_line.h"

#include <limits>

#include "wire/json_record.h"

namespace ffdl::data {
namespace {

using wire::Json;
using wire::RecordReader;

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

std::string header_line(const LedgerOptions& options) {
  return wire::dump({{"samples", options.samples},
                     {"partition_samples", options.partition_samples},
                     {"epochs", options.epochs}});
}

std::string step_line(const CommittedStep& step) {
  Json parts = Json::array();
  for (const auto& [member, range] : step.parts) {
    parts.push_back(
        Json::array({member.id, member.incarnation, range.partition, range.begin, range.end}));
  }
  Json line = {{"step", step.step}, {"lineage", step.lineage}};
  if (step.continues > 0 && step.continues + 1 != step.lineage) line["continues"] = step.continues;
  line["parts"] = std::move(parts);
  return wire::dump(line);
}

std::optional<CommitLine> parse_commit_line(std::string_view text) {
  const Json json = wire::parse_json(text);
  RecordReader fields(json);
  CommitLine line;
  line.is_header = fields.has("samples");
  if (line.is_header) {
    line.samples = fields.number("samples");
    line.partition_samples = fields.number("partition_samples");
    line.epochs = fields.number("epochs");
  } else {
    line.step.step = fields.number("step");
    line.step.lineage = fields.number("lineage");
    if (fields.has("continues")) line.step.continues = fields.number("continues");
    const Json* parts = fields.find("parts");
    if (parts == nullptr || !parts->is_array()) return {};
    for (const Json& each : *parts) {
      auto part = read_part(each);
      if (!part) return {};
      line.step.parts.push_back(std::move(*part));
    }
  }
  if (fields.failed()) return {};
  return line;
}

}  // namespace ffdl::data
