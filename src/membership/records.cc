#include "membership/records.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::membership {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kFormat = 2;

Status is_corrupt(std::string_view what, std::string_view why) {
  return base::make_error(StatusCode::kCorrupt,
                          "read {}: {}; something else wrote it, or another version of ffdl: use "
                          "another job name, or remove the job's keys",
                          what, why);
}

// Takes fields out of an object. After the first that is not there, or is of another kind, it has
// failed, and all that it gives is empty.
class Fields {
 public:
  explicit Fields(const Json* object) : object_(object) {
    if (object_ == nullptr || !object_->is_object()) fail("it is no object");
  }

  uint64_t number(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_number_unsigned()) return value->get<uint64_t>();
    fail(name);
    return 0;
  }
  std::string text(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    fail(name);
    return {};
  }
  bool truth(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    fail(name);
    return false;
  }
  // Null where it is not there.
  const Json* find(const char* name) {
    if (failed()) return nullptr;
    const auto found = object_->find(name);
    return found == object_->end() ? nullptr : &*found;
  }
  void fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }
  void fail_with(const Fields& part) {
    if (part.failed()) fail(part.why_);
  }
  bool failed() const { return !why_.empty(); }
  Status outcome(std::string_view what) const {
    return failed() ? is_corrupt(what, fmt::format("'{}' is missing or wrong", why_)) : Status();
  }

 private:
  const Json* object_;
  std::string why_;
};

Json to_json(const Member& member) {
  return {{"id", member.id}, {"incarnation", member.incarnation}, {"address", member.address}};
}

Json to_json(const std::vector<Member>& members) {
  Json list = Json::array();
  for (const Member& member : members) list.push_back(to_json(member));
  return list;
}

Json to_json(const std::optional<CheckpointPointer>& checkpoint) {
  if (!checkpoint) return nullptr;
  return {{"lineage", checkpoint->lineage},
          {"generation", checkpoint->generation},
          {"step", checkpoint->step},
          {"manifest", checkpoint->manifest},
          {"hash", checkpoint->hash}};
}

// Bytes that are not UTF-8, as a user may put into an address, are replaced.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json parse(std::string_view text) { return Json::parse(text, nullptr, false); }

Member take_member(Fields& outer, const Json* json) {
  Fields fields(json);
  Member member;
  member.id = fields.text("id");
  member.incarnation = fields.number("incarnation");
  member.address = fields.text("address");
  if (!fields.failed() && (!is_name(member.id) || member.incarnation == 0)) fields.fail("id");
  outer.fail_with(fields);
  return member;
}

std::vector<Member> take_members(Fields& outer, const char* name) {
  const Json* list = outer.find(name);
  if (list == nullptr || !list->is_array() || list->size() > base::kRanksMax) {
    outer.fail(name);
    return {};
  }
  std::vector<Member> members;
  std::set<std::string> ids;
  for (const Json& json : *list) {
    members.push_back(take_member(outer, &json));
    if (!ids.insert(members.back().id).second) outer.fail(name);
  }
  return members;
}

std::optional<CheckpointPointer> take_checkpoint(Fields& outer, const char* name) {
  const Json* json = outer.find(name);
  if (json == nullptr) outer.fail(name);
  if (json == nullptr || json->is_null()) return std::nullopt;
  Fields fields(json);
  CheckpointPointer checkpoint;
  checkpoint.lineage = fields.number("lineage");
  checkpoint.generation = fields.number("generation");
  checkpoint.step = fields.number("step");
  checkpoint.manifest = fields.text("manifest");
  checkpoint.hash = fields.number("hash");
  outer.fail_with(fields);
  return checkpoint;
}

// What no writer would have written.
void check(const WorldRecord& record, Fields& fields) {
  const bool active = record.phase == Phase::kActive;
  if (record.generation == 0 || record.members.empty()) fields.fail("generation");
  if (active ? record.active_generation != record.generation
             : record.active_generation >= record.generation) {
    fields.fail("active_generation");
  }
  if (active && record.carriers != record.members) fields.fail("carriers");
  if (active ? record.active_lineage != record.lineage : record.active_lineage > record.lineage) {
    fields.fail("active_lineage");
  }
  if (record.lineage == 0) fields.fail("lineage");
  if (record.term == 0) fields.fail("term");
}

}  // namespace

std::string_view to_string(Recovery recovery) {
  return recovery == Recovery::kConsistent ? "consistent" : "forward";
}

std::string encode(const WorldRecord& record) {
  return dump({{"format", kFormat},
               {"generation", record.generation},
               {"phase", record.phase == Phase::kActive ? "active" : "forming"},
               {"members", to_json(record.members)},
               {"carriers", to_json(record.carriers)},
               {"active_generation", record.active_generation},
               {"active_lineage", record.active_lineage},
               {"lineage", record.lineage},
               {"recovery", to_string(record.recovery)},
               {"term", record.term},
               {"leader", to_json(record.leader)},
               {"checkpoint", to_json(record.checkpoint)},
               {"restart_base", to_json(record.restart_base)}});
}

Result<WorldRecord> parse_world(std::string_view text) {
  const Json json = parse(text);
  Fields fields(&json);
  WorldRecord record;
  if (fields.number("format") != kFormat) fields.fail("format");
  record.generation = fields.number("generation");
  const std::string phase = fields.text("phase");
  if (phase != "active" && phase != "forming") fields.fail("phase");
  record.phase = phase == "active" ? Phase::kActive : Phase::kForming;
  record.members = take_members(fields, "members");
  record.carriers = take_members(fields, "carriers");
  record.active_generation = fields.number("active_generation");
  record.active_lineage = fields.number("active_lineage");
  record.lineage = fields.number("lineage");
  const std::string recovery = fields.text("recovery");
  if (recovery != "forward" && recovery != "consistent") fields.fail("recovery");
  record.recovery = recovery == "consistent" ? Recovery::kConsistent : Recovery::kForward;
  record.term = fields.number("term");
  record.leader = take_member(fields, fields.find("leader"));
  record.checkpoint = take_checkpoint(fields, "checkpoint");
  record.restart_base = take_checkpoint(fields, "restart_base");
  check(record, fields);
  FFDL_RETURN_IF_ERROR(fields.outcome("the record of the world"));
  return record;
}

std::string encode(const CandidateRecord& candidate) {
  Json json = {{"incarnation", candidate.incarnation},
               {"address", candidate.address},
               {"leaving", candidate.leaving},
               {"failed_generation", candidate.failed_generation}};
  if (candidate.takes_over_from) json["takes_over_from"] = to_json(*candidate.takes_over_from);
  return dump(json);
}

Result<CandidateRecord> parse_candidate(std::string_view text) {
  const Json json = parse(text);
  Fields fields(&json);
  CandidateRecord candidate;
  candidate.incarnation = fields.number("incarnation");
  candidate.address = fields.text("address");
  candidate.leaving = fields.truth("leaving");
  candidate.failed_generation = fields.number("failed_generation");
  if (candidate.incarnation == 0) fields.fail("incarnation");
  const Json* predecessor = fields.find("takes_over_from");
  if (predecessor != nullptr) candidate.takes_over_from = take_member(fields, predecessor);
  FFDL_RETURN_IF_ERROR(fields.outcome("a candidate"));
  return candidate;
}

std::string encode(const Progress& progress) {
  return dump({{"incarnation", progress.incarnation},
               {"generation", progress.generation},
               {"step", progress.step}});
}

Result<Progress> parse_progress(std::string_view text) {
  const Json json = parse(text);
  Fields fields(&json);
  Progress progress;
  progress.incarnation = fields.number("incarnation");
  progress.generation = fields.number("generation");
  progress.step = fields.number("step");
  FFDL_RETURN_IF_ERROR(fields.outcome("a member's progress"));
  return progress;
}

std::string encode_leader(const Member& leader) { return dump(to_json(leader)); }

Result<Member> parse_leader(std::string_view text) {
  const Json json = parse(text);
  Fields outer(&json);
  Member leader = take_member(outer, &json);
  FFDL_RETURN_IF_ERROR(outer.outcome("the leader"));
  return leader;
}

Result<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return is_corrupt("an incarnation", "it is no decimal number");
}

}  // namespace ffdl::membership
