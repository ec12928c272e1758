#include "cli/data.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/print.h"
#include "ffdl/data/commit_log.h"

namespace ffdl::cli {
namespace {

struct AuditArguments {
  std::vector<std::string> logs;
  std::vector<std::vector<std::string>> then;
  CommitAuditOptions options;
  bool json = false;
};

void print_json(const CommitAudit& audit) {
  const nlohmann::ordered_json document = {
      {"ok", audit.problems == 0},    {"steps", audit.steps},
      {"samples", audit.samples},     {"epochs", audit.epochs},
      {"under_way", audit.under_way}, {"missing", audit.missing},
      {"repeated", audit.repeated},   {"undone", audit.undone},
      {"cut_lines", audit.cut_lines}, {"problems", audit.problems},
      {"first_problems", audit.first_problems}};
  print_document(document.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_text(const CommitAudit& audit) {
  for (const std::string& problem : audit.first_problems) print("{}\n", problem);
  if (audit.problems > audit.first_problems.size()) {
    print("and {} more problems\n", audit.problems - audit.first_problems.size());
  }
  print("{} steps committed {} samples: {} epochs{}, and {} samples of the next epoch\n",
        audit.steps, audit.samples, audit.epochs, audit.problems == 0 ? ", each sample once" : "",
        audit.under_way);
  if (audit.undone > 0) {
    print("{} samples of earlier lineages were undone, and given out again\n", audit.undone);
  }
  if (audit.cut_lines > 0) {
    print("{} lines are incomplete: a process was killed while it wrote them\n", audit.cut_lines);
  }
}

// Replaces a folder by the logs that the workers' first ledgers write there under `ffdl run
// --ledger-log`. Logs of other ledgers in it are of other data sets.
Result<std::vector<std::string>> files_of(const std::vector<std::string>& logs) {
  std::vector<std::string> files;
  for (const std::string& log : logs) {
    std::error_code error;
    if (!std::filesystem::is_directory(log, error)) {
      files.push_back(log);
      continue;
    }
    const size_t before = files.size();
    for (const auto& file : std::filesystem::directory_iterator(log, error)) {
      if (file.path().extension() == ".commits") files.push_back(file.path().string());
    }
    if (files.size() > before) continue;
    return Status(
        StatusCode::kNotFound,
        fmt::format("audit folder '{}': it has no file *.commits; name the logs instead", log));
  }
  std::sort(files.begin(), files.end());
  return files;
}

Status run_audit(const AuditArguments& arguments) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<std::string> logs, files_of(arguments.logs));
  CommitAuditOptions options = arguments.options;
  size_t count = logs.size();
  for (const std::vector<std::string>& further : arguments.then) {
    FFDL_ASSIGN_OR_RETURN(options.then.emplace_back(), files_of(further));
    count += options.then.back().size();
  }
  FFDL_ASSIGN_OR_RETURN(const CommitAudit audit, audit_commit_logs(logs, options));
  arguments.json ? print_json(audit) : print_text(audit);
  if (audit.problems == 0) return {};
  return Status(StatusCode::kCorrupt,
                fmt::format("audit {} commit logs: {} samples missing, {} repeated, {} problems",
                            count, audit.missing, audit.repeated, audit.problems));
}

}  // namespace

void add_data_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<AuditArguments>();  // shared with the callback below
  CLI::App* data = app.add_subcommand("data", "Check which samples a job used");
  data->require_subcommand(1);
  CLI::App* audit = data->add_subcommand(
      "audit",
      "Check that a job used each sample once per epoch, and list missing and repeated samples");
  audit
      ->add_option(
          "LOG", arguments->logs,
          "Commit logs of all members that the job ever had, or the folder passed to 'ffdl "
          "run --ledger-log'")
      ->required();
  audit->add_option("--then", arguments->then,
                    "Commit logs, or their folder, of a job that continued from a checkpoint of "
                    "the previous job; repeat --then for each further job");
  audit->add_flag(
      "--complete", arguments->options.complete,
      "Fail if a sample of any epoch is missing; by default, the last epoch may be incomplete");
  audit->add_flag("--json", arguments->json, "Print JSON");
  audit->footer(
      "The exit code is 1 if samples are missing or repeated, or if a log cannot be read.\n\n"
      "Examples:\n  ffdl data audit logs/\n  ffdl data audit --complete --json commits-*\n"
      "  ffdl data audit monday/ --then tuesday/");
  audit->callback([arguments, &outcome] { outcome = run_audit(*arguments); });
}

}  // namespace ffdl::cli
