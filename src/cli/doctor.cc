#include "cli/doctor.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "ffdl/diagnose.h"

namespace ffdl::cli {
namespace {

struct DoctorOptions {
  bool dry_run = false;
  bool json = false;
};

struct Finding {
  SegmentInfo segment;
  std::string verdict;  // in use, stale, removed, or why it could not be removed
};

Finding treat(const SegmentInfo& segment, bool dry_run) {
  if (segment.in_use) return {segment, "in use"};
  if (dry_run) return {segment, "stale"};
  const Status removed = remove_segment(segment.name);
  return {segment, removed.ok() ? "removed" : std::string(removed.message())};
}

void print_json(const std::vector<Finding>& findings) {
  auto rows = nlohmann::json::array();
  for (const auto& [segment, verdict] : findings) {
    rows.push_back({{"name", segment.name},
                    {"kind", segment.kind},
                    {"bytes", segment.bytes},
                    {"age_s", segment.age_s},
                    {"creator_pid", segment.creator_pid},
                    {"in_use", segment.in_use},
                    {"problem", segment.problem},
                    {"verdict", verdict}});
  }
  fmt::print("{}\n", nlohmann::json{{"segments", rows}}.dump(2));
}

void print_table(const std::vector<Finding>& findings, bool dry_run) {
  if (findings.empty()) {
    fmt::print("no shared-memory segments of ffdl on this host\n");
    return;
  }
  fmt::print("{:<32} {:<17} {:>10} {:>9}  {}\n", "segment", "kind", "MiB", "age", "state");
  for (const auto& [segment, verdict] : findings) {
    fmt::print("{:<32} {:<17} {:>10.1f} {:>7.0f} s  {}\n", segment.name, segment.kind,
               static_cast<double>(segment.bytes) / (1 << 20), segment.age_s, verdict);
    if (!segment.problem.empty()) fmt::print("    {}\n", segment.problem);
  }
  if (dry_run) fmt::print("nothing was removed; without --dry-run the stale ones are\n");
}

Status run_doctor(const DoctorOptions& options) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<SegmentInfo> segments, list_segments());
  std::vector<Finding> findings;
  for (const SegmentInfo& segment : segments) findings.push_back(treat(segment, options.dry_run));
  options.json ? print_json(findings) : print_table(findings, options.dry_run);
  return {};
}

}  // namespace

void add_doctor_command(CLI::App& app, Status& outcome) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor = app.add_subcommand(
      "doctor", "List ffdl's shared-memory segments and remove those whose owners are dead");
  doctor->add_flag("-n,--dry-run", options->dry_run, "Only list; remove nothing");
  doctor->add_flag("--json", options->json, "Print JSON");
  doctor->footer(
      "A segment is in use while any process holds one of its locks: its server, or a learner "
      "that\n"
      "waits for a new server. A job that was killed can still be continued from its segment\n"
      "(ParameterServer::adopt); look with --dry-run before you remove it.\n\n"
      "Examples:\n  ffdl doctor --dry-run\n  ffdl doctor\n  ffdl doctor --json | jq "
      "'.segments[].name'");
  doctor->callback([options, &outcome] { outcome = run_doctor(*options); });
}

}  // namespace ffdl::cli
