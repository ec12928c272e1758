#include "cli/doctor.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/job_folder.h"
#include "cli/print.h"
#include "ffdl/diagnose.h"

namespace ffdl::cli {
namespace {

struct DoctorOptions {
  bool dry_run = false;
  bool json = false;
};

struct JobFinding {
  JobFolderInfo folder;
  std::string verdict;  // in use, kept, stale, removed, or why it could not be removed
};

JobFinding treat(const JobFolderInfo& folder, bool dry_run) {
  if (folder.in_use) return {folder, "in use"};
  if (folder.is_named) return {folder, "kept"};
  if (dry_run) return {folder, "stale"};
  const Status removed = remove_job_folder(folder.job);
  return {folder, removed.ok() ? "removed" : std::string(removed.message())};
}

struct Finding {
  SegmentInfo segment;
  std::string verdict;  // in use, of another user, stale, removed, or why it could not be removed
};

Finding treat(const SegmentInfo& segment, bool dry_run) {
  if (!segment.is_own) return {segment, "of another user"};
  if (segment.in_use) return {segment, "in use"};
  if (dry_run) return {segment, "stale"};
  const Status removed = remove_segment(segment.name);
  return {segment, removed.ok() ? "removed" : std::string(removed.message())};
}

void print_json(const std::vector<Finding>& findings, const std::vector<JobFinding>& jobs) {
  auto rows = nlohmann::json::array();
  for (const auto& [segment, verdict] : findings) {
    rows.push_back({{"name", segment.name},
                    {"kind", segment.kind},
                    {"bytes", segment.bytes},
                    {"age_s", segment.age_s},
                    {"creator_pid", segment.creator_pid},
                    {"in_use", segment.in_use},
                    {"own", segment.is_own},
                    {"problem", segment.problem},
                    {"verdict", verdict}});
  }
  auto folders = nlohmann::json::array();
  for (const auto& [folder, verdict] : jobs) {
    folders.push_back({{"job", folder.job},
                       {"named", folder.is_named},
                       {"in_use", folder.in_use},
                       {"process", folder.process},
                       {"verdict", verdict}});
  }
  const nlohmann::json all = {{"segments", rows}, {"jobs", folders}};
  print_document(all.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_table(const std::vector<Finding>& findings) {
  if (findings.empty()) {
    print("no shared-memory segments of ffdl on this host\n");
    return;
  }
  print("{:<32} {:<17} {:>10} {:>9}  {}\n", "segment", "kind", "MiB", "age", "state");
  for (const auto& [segment, verdict] : findings) {
    print("{:<32} {:<17} {:>10.1f} {:>7.0f} s  {}\n", segment.name, segment.kind,
          static_cast<double>(segment.bytes) / (1 << 20), segment.age_s, verdict);
    if (!segment.problem.empty()) print("    {}\n", segment.problem);
  }
}

void print_jobs(const std::vector<JobFinding>& jobs) {
  if (jobs.empty()) return;
  print("\n{:<32} {:>10}  {}\n", "folder of the job", "process", "state");
  for (const auto& [folder, verdict] : jobs) {
    print("{:<32} {:>10}  {}\n", folder.job, folder.process, verdict);
  }
}

Status run_doctor(const DoctorOptions& options) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<SegmentInfo> segments, list_segments());
  std::vector<Finding> findings;
  for (const SegmentInfo& segment : segments) findings.push_back(treat(segment, options.dry_run));
  FFDL_ASSIGN_OR_RETURN(const std::vector<JobFolderInfo> folders, list_job_folders());
  std::vector<JobFinding> jobs;
  for (const JobFolderInfo& folder : folders) jobs.push_back(treat(folder, options.dry_run));
  if (options.json) {
    print_json(findings, jobs);
    return {};
  }
  print_table(findings);
  print_jobs(jobs);
  const bool has_any = !findings.empty() || !jobs.empty();
  if (options.dry_run && has_any) {
    print("nothing was removed; to remove what is stale, run 'ffdl doctor' without --dry-run\n");
  }
  return {};
}

}  // namespace

void add_doctor_command(CLI::App& app, Status& outcome) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "List ffdl's shared-memory segments and job folders, and remove unused segments and folders "
      "of this user");
  doctor->add_flag("-n,--dry-run", options->dry_run,
                   "List segments and folders, but remove nothing");
  doctor->add_flag("--json", options->json, "Print JSON");
  doctor->footer(
      "A segment is in use while a process, such as a parameter server or an attached learner,\n"
      "holds one of the segment's locks. If a parameter server was killed and no learner is\n"
      "attached, 'ffdl doctor' removes the server's segment. To keep the segment for\n"
      "ParameterServer::adopt, use --dry-run.\n\n"
      "The folder of a job is in use while 'ffdl run' or a worker holds the folder's lock.\n"
      "'ffdl doctor' keeps the folder of a named job, because the next 'ffdl run --job NAME'\n"
      "continues from the store in this folder.\n\n"
      "Examples:\n  ffdl doctor --dry-run\n  ffdl doctor\n  ffdl doctor --json | jq "
      "'.segments[].name'");
  doctor->callback([options, &outcome] { outcome = run_doctor(*options); });
}

}  // namespace ffdl::cli
