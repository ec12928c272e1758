#include "membership/membership_records.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/limits.h"
#include "wire/json_record.h"

namespace ffdl::membership {
namespace {

using wire::dump;
using wire::Json;
using wire::parse_json;
using wire::RecordReader;

constexpr uint64_t kFormat = 3;

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

Json to_json(const StateLabel& label) {
  return {{"lineage", label.lineage},
          {"generation", label.generation},
          {"step", label.step},
          {"hash", label.hash}};
}

Json to_json(const std::optional<StateLabel>& label) {
  return label ? to_json(*label) : Json(nullptr);
}

Member take_member(RecordReader& fields) {
  Member member;
  member.id = fields.text("id");
  member.incarnation = fields.number("incarnation");
  member.address = fields.text("address");
  if (!fields.failed() && (!is_name(member.id) || member.incarnation == 0)) fields.fail("id");
  return member;
}

Member take_member(RecordReader& outer, const char* name) {
  Member member;
  outer.object(name, [&](RecordReader& fields) { member = take_member(fields); });
  return member;
}

std::vector<Member> take_members(RecordReader& outer, const char* name) {
  std::vector<Member> members;
  std::set<std::string> ids;
  outer.list(name, base::kRanksMax, [&](RecordReader& fields) {
    members.push_back(take_member(fields));
    if (!ids.insert(members.back().id).second) fields.fail(name);
  });
  return members;
}

// Reports whether the field holds an object. It must be there, and may be null.
bool is_given(RecordReader& outer, const char* name) {
  const Json* json = outer.find(name);
  if (json == nullptr) outer.fail(name);
  return json != nullptr && !json->is_null();
}

std::optional<CheckpointPointer> take_checkpoint(RecordReader& outer, const char* name) {
  if (!is_given(outer, name)) return std::nullopt;
  CheckpointPointer checkpoint;
  outer.object(name, [&](RecordReader& fields) {
    checkpoint.lineage = fields.number("lineage");
    checkpoint.generation = fields.number("generation");
    checkpoint.step = fields.number("step");
    checkpoint.manifest = fields.text("manifest");
    checkpoint.hash = fields.number("hash");
  });
  return checkpoint;
}

StateLabel take_label(RecordReader& fields) {
  return {fields.number("lineage"), fields.number("generation"), fields.number("step"),
          fields.number("hash")};
}

std::optional<StateLabel> take_label(RecordReader& outer, const char* name) {
  if (!is_given(outer, name)) return std::nullopt;
  StateLabel label;
  outer.object(name, [&](RecordReader& fields) { label = take_label(fields); });
  return label;
}

// Returns an empty list if the field is missing.
std::vector<Unreached> take_unreached(RecordReader& outer) {
  std::vector<Unreached> unreached;
  if (!outer.has("unreached")) return unreached;
  outer.list("unreached", base::kUnreachedMax, [&](RecordReader& fields) {
    unreached.push_back({fields.text("id"), fields.number("incarnation"), fields.number("worlds")});
    if (!fields.failed() && !is_name(unreached.back().id)) fields.fail("id");
  });
  return unreached;
}

// Fails on a record that no member would have written.
void check(const WorldRecord& record, RecordReader& fields) {
  const bool active = record.phase == Phase::kActive;
  if (record.generation == 0 || record.members.empty()) fields.fail("generation");
  if (active ? record.active_generation != record.generation
             : record.active_generation >= record.generation) {
    fields.fail("active_generation");
  }
  if (active && record.state_holders != record.members) fields.fail("state_holders");
  if (active ? record.active_lineage != record.lineage : record.active_lineage > record.lineage) {
    fields.fail("active_lineage");
  }
  if (record.lineage == 0) fields.fail("lineage");
  if (record.oldest_lineage > record.lineage) fields.fail("oldest_lineage");
  if (record.term == 0) fields.fail("term");
  if (record.completion && record.completion->lineage != record.lineage) fields.fail("completion");
}

}  // namespace

// The generation of a state's last step tells which worlds are in its past, since only active
// worlds make steps. A lineage may begin with an older state than one of a member that was away.
// Then what that lineage began with counts before the latter, at whichever member it is.
std::optional<StateLabel> WorldRecord::label_at_beginning(const StateLabel& state) const {
  if (recovery != Recovery::kForward) return std::nullopt;
  const bool contains_base = lineage_base.lineage > 0 &&
                             state.generation == lineage_base.generation &&
                             state.step >= lineage_base.step;
  StateLabel label = state;
  if (contains_base) label.lineage = active_lineage;
  const bool counts = label.lineage > 0 && label.lineage >= oldest_lineage;
  return counts ? std::optional(label) : std::nullopt;
}

// A lineage that made no step of its own may have reported none.
uint64_t WorldRecord::continued_lineage(const StateLabel& base) const {
  const bool is_its_base = base.lineage == active_lineage && base.generation < lineage_generation;
  return is_its_base && continues > 0 ? continues : base.lineage;
}

std::optional<StateLabel> label_of(const std::optional<CheckpointPointer>& checkpoint) {
  return checkpoint ? std::optional(checkpoint->label()) : std::nullopt;
}

std::string_view to_string(Recovery recovery) {
  return recovery == Recovery::kConsistent ? "consistent" : "forward";
}

std::string encode(const WorldRecord& record) {
  return dump({{"format", kFormat},
               {"generation", record.generation},
               {"phase", record.phase == Phase::kActive ? "active" : "forming"},
               {"members", to_json(record.members)},
               {"state_holders", to_json(record.state_holders)},
               {"active_generation", record.active_generation},
               {"active_lineage", record.active_lineage},
               {"lineage", record.lineage},
               {"recovery", to_string(record.recovery)},
               {"protocol", record.protocol},
               {"term", record.term},
               {"leader", to_json(record.leader)},
               {"checkpoint", to_json(record.checkpoint)},
               {"restart_base", to_json(record.restart_base)},
               {"oldest_lineage", record.oldest_lineage},
               {"lineage_generation", record.lineage_generation},
               {"lineage_base", to_json(record.lineage_base)},
               {"lineage_holder", record.lineage_holder},
               {"continues", record.continues},
               {"completion", to_json(record.completion)}});
}

Result<WorldRecord> parse_world(std::string_view text) {
  const Json json = parse_json(text);
  RecordReader fields(json);
  WorldRecord record;
  if (fields.number("format") != kFormat) fields.fail("format");
  record.generation = fields.number("generation");
  const std::string phase = fields.text("phase");
  if (phase != "active" && phase != "forming") fields.fail("phase");
  record.phase = phase == "active" ? Phase::kActive : Phase::kForming;
  record.members = take_members(fields, "members");
  record.state_holders = take_members(fields, "state_holders");
  record.active_generation = fields.number("active_generation");
  record.active_lineage = fields.number("active_lineage");
  record.lineage = fields.number("lineage");
  const std::string recovery = fields.text("recovery");
  if (recovery != "forward" && recovery != "consistent") fields.fail("recovery");
  record.recovery = recovery == "consistent" ? Recovery::kConsistent : Recovery::kForward;
  record.protocol = fields.number("protocol");
  record.term = fields.number("term");
  record.leader = take_member(fields, "leader");
  record.checkpoint = take_checkpoint(fields, "checkpoint");
  record.restart_base = take_checkpoint(fields, "restart_base");
  if (fields.has("oldest_lineage")) record.oldest_lineage = fields.number("oldest_lineage");
  if (fields.has("lineage_generation")) {
    record.lineage_generation = fields.number("lineage_generation");
  }
  if (fields.has("lineage_base")) {
    record.lineage_base = take_label(fields, "lineage_base").value_or(StateLabel{});
    record.lineage_holder = fields.text("lineage_holder");
    record.continues = fields.number("continues");
  }
  record.completion = take_label(fields, "completion");
  check(record, fields);
  FFDL_RETURN_IF_ERROR(fields.outcome("the record of the world"));
  return record;
}

void count_unreached(const std::vector<Member>& members, std::vector<Unreached>& unreached) {
  for (const Member& member : members) {
    const auto known = std::ranges::find(unreached, member.id, &Unreached::id);
    Unreached& one = known == unreached.end() ? unreached.emplace_back() : *known;
    if (!one.is(member)) one = {member.id, member.incarnation, 0};
    ++one.worlds;
  }
  if (unreached.size() <= base::kUnreachedMax) return;
  const auto extra = static_cast<std::ptrdiff_t>(unreached.size() - base::kUnreachedMax);
  unreached.erase(unreached.begin(), unreached.begin() + extra);
}

std::string encode(const CandidateRecord& candidate) {
  Json json = {{"incarnation", candidate.incarnation},
               {"address", candidate.address},
               {"leaving", candidate.leaving},
               {"failed_generation", candidate.failed_generation}};
  if (candidate.takes_over_from) json["takes_over_from"] = to_json(*candidate.takes_over_from);
  for (const Unreached& one : candidate.unreached) {
    json["unreached"].push_back(
        {{"id", one.id}, {"incarnation", one.incarnation}, {"worlds", one.worlds}});
  }
  return dump(json);
}

Result<CandidateRecord> parse_candidate(std::string_view text) {
  const Json json = parse_json(text);
  RecordReader fields(json);
  CandidateRecord candidate;
  candidate.incarnation = fields.number("incarnation");
  candidate.address = fields.text("address");
  candidate.leaving = fields.truth("leaving");
  candidate.failed_generation = fields.number("failed_generation");
  if (candidate.incarnation == 0) fields.fail("incarnation");
  if (fields.has("takes_over_from")) {
    candidate.takes_over_from = take_member(fields, "takes_over_from");
  }
  candidate.unreached = take_unreached(fields);
  FFDL_RETURN_IF_ERROR(fields.outcome("a candidate"));
  return candidate;
}

std::string encode(const Progress& progress) {
  return dump({{"incarnation", progress.incarnation},
               {"generation", progress.generation},
               {"step", progress.step},
               {"reached_lineage", progress.reached.lineage},
               {"reached_step", progress.reached.step},
               {"holds", to_json(progress.holds)},
               {"process", progress.process}});
}

Result<Progress> parse_progress(std::string_view text) {
  const Json json = parse_json(text);
  RecordReader fields(json);
  Progress progress;
  progress.incarnation = fields.number("incarnation");
  progress.generation = fields.number("generation");
  progress.step = fields.number("step");
  progress.reached.lineage = fields.number("reached_lineage");
  progress.reached.step = fields.number("reached_step");
  if (fields.has("holds")) progress.holds = take_label(fields, "holds");
  if (fields.has("process")) progress.process = fields.text("process");
  FFDL_RETURN_IF_ERROR(fields.outcome("a member's progress"));
  return progress;
}

std::string encode_leader(const Member& leader) { return dump(to_json(leader)); }

Result<Member> parse_leader(std::string_view text) {
  const Json json = parse_json(text);
  RecordReader fields(json);
  Member leader = take_member(fields);
  FFDL_RETURN_IF_ERROR(fields.outcome("the leader"));
  return leader;
}

Result<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return wire::corrupt_record("an incarnation", "it is not a decimal number");
}

}  // namespace ffdl::membership
