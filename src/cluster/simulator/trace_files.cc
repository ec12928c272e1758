#include "cluster/simulator/trace_files.h"

#include <algorithm>

#include "cluster/plan/csv.h"
#include "cluster/plan/limits.h"

namespace ffdl::cluster {
namespace {

namespace fs = std::filesystem;

// Reads a placement. "214": two workers on one node, one on another, four on a third.
Result<std::vector<int>> read_placement(const CsvFile& csv, size_t row, size_t column) {
  std::vector<int> placement;
  if (csv.text(row, column).size() > kPlacedNodesMax) {
    return csv.error_at(row, column, "a placement on more than {} nodes", kPlacedNodesMax);
  }
  for (const char digit : csv.text(row, column)) {
    if (digit < '1' || digit > '9') {
      return csv.error_at(row, column,
                          "'{}' is not a placement; write the workers of each node, 1 to 9",
                          csv.text(row, column));
    }
    placement.push_back(digit - '0');
  }
  if (placement.empty())
    return csv.error_at(row, column, "no placement; write the workers of each node");
  return placement;
}

// Reads a number of nodes and workers, as one of the placements that it may mean.
Result<std::vector<int>> read_spread(const CsvFile& csv, size_t row, size_t nodes_column,
                                     size_t workers_column) {
  FFDL_ASSIGN_OR_RETURN(const int64_t nodes, csv.integer(row, nodes_column, 1, kPlacedNodesMax));
  FFDL_ASSIGN_OR_RETURN(const int64_t workers,
                        csv.integer(row, workers_column, nodes, kWorkersMax));
  std::vector<int> placement(static_cast<size_t>(nodes), static_cast<int>(workers / nodes));
  for (int64_t i = 0; i < workers % nodes; ++i) ++placement[static_cast<size_t>(i)];
  return placement;
}

Status read_times(const CsvFile& csv, size_t row, MeasuredStep& step) {
  FFDL_ASSIGN_OR_RETURN(const size_t batch, csv.column("local_bsz"));
  FFDL_ASSIGN_OR_RETURN(const size_t step_time, csv.column("step_time"));
  FFDL_ASSIGN_OR_RETURN(const size_t sync_time, csv.column("sync_time"));
  FFDL_ASSIGN_OR_RETURN(step.local_batch, csv.integer(row, batch, 1, kBatchMax));
  FFDL_ASSIGN_OR_RETURN(step.step_s, csv.number(row, step_time, kSecondsMax));
  FFDL_ASSIGN_OR_RETURN(step.sync_s, csv.number(row, sync_time, kSecondsMax));
  if (step.step_s <= 0)
    return csv.error_at(row, step_time, "a step of 0 s or less; measure it again");
  if (step.sync_s < 0 || step.sync_s > step.step_s) {
    return csv.error_at(row, sync_time, "not between 0 and the step's time; measure it again");
  }
  return {};
}

Status read_placed(const fs::path& path, ApplicationProfile& profile) {
  FFDL_ASSIGN_OR_RETURN(const CsvFile csv, CsvFile::read(path));
  FFDL_ASSIGN_OR_RETURN(const size_t column, csv.column("placement"));
  for (size_t row = 0; row < csv.rows(); ++row) {
    MeasuredStep step;
    FFDL_ASSIGN_OR_RETURN(step.placement, read_placement(csv, row, column));
    FFDL_RETURN_IF_ERROR(read_times(csv, row, step));
    profile.placed.push_back(std::move(step));
  }
  if (csv.rows() == 0)
    return csv.error_in_header(column, "no line of measurements; add one at least");
  return {};
}

Status read_spread_times(const fs::path& path, ApplicationProfile& profile) {
  FFDL_ASSIGN_OR_RETURN(const CsvFile csv, CsvFile::read(path));
  FFDL_ASSIGN_OR_RETURN(const size_t nodes, csv.column("num_nodes"));
  FFDL_ASSIGN_OR_RETURN(const size_t workers, csv.column("num_replicas"));
  for (size_t row = 0; row < csv.rows(); ++row) {
    MeasuredStep step;
    FFDL_ASSIGN_OR_RETURN(step.placement, read_spread(csv, row, nodes, workers));
    FFDL_RETURN_IF_ERROR(read_times(csv, row, step));
    profile.spread.push_back(std::move(step));
  }
  return {};
}

Status read_epochs(const fs::path& path, std::vector<EpochStatistics>& epochs) {
  FFDL_ASSIGN_OR_RETURN(const CsvFile csv, CsvFile::read(path));
  FFDL_ASSIGN_OR_RETURN(const size_t progress, csv.column("progress"));
  FFDL_ASSIGN_OR_RETURN(const size_t sqr, csv.column("grad_sqr"));
  FFDL_ASSIGN_OR_RETURN(const size_t var, csv.column("grad_var"));
  double before = 0;
  for (size_t row = 0; row < csv.rows(); ++row) {
    EpochStatistics epoch;
    FFDL_ASSIGN_OR_RETURN(epoch.progress, csv.number(row, progress));
    FFDL_ASSIGN_OR_RETURN(epoch.grad_sqr, csv.number(row, sqr));
    FFDL_ASSIGN_OR_RETURN(epoch.grad_var, csv.number(row, var));
    if (epoch.progress <= before) {
      return csv.error_at(row, progress, "progress does not grow; count it from the start");
    }
    if (epoch.grad_sqr < 0) return csv.error_at(row, sqr, "a squared norm below 0");
    if (epoch.grad_var < 0) return csv.error_at(row, var, "a variance below 0");
    before = epoch.progress;
    epochs.push_back(epoch);
  }
  if (epochs.empty()) return csv.error_in_header(progress, "no line of an epoch; add one at least");
  return {};
}

Result<ApplicationProfile> load_profile(const fs::path& folder) {
  ApplicationProfile profile;
  profile.name = folder.filename().string();
  FFDL_RETURN_IF_ERROR(read_placed(folder / "placements.csv", profile));
  if (fs::exists(folder / "scalability.csv")) {
    FFDL_RETURN_IF_ERROR(read_spread_times(folder / "scalability.csv", profile));
  }
  constexpr std::string_view kPrefix = "validation-";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!name.starts_with(kPrefix) || entry.path().extension() != ".csv") continue;
    const auto batch = parse_integer(std::string_view(name).substr(kPrefix.size()));
    if (!batch || *batch < 1 || *batch > kBatchMax) {
      return base::invalid_argument(
          "read '{}': '{}' is not a batch; name it validation-<batch>.csv", entry.path().string(),
          name.substr(kPrefix.size()));
    }
    FFDL_RETURN_IF_ERROR(read_epochs(entry.path(), profile.epochs[*batch]));
  }
  if (profile.epochs.empty()) {
    return base::invalid_argument("read '{}': no 'validation-<batch>.csv'; add one at least",
                                  folder.string());
  }
  return profile;
}

}  // namespace

namespace {

Result<int> read_workers(const CsvFile& csv, size_t row, size_t column) {
  FFDL_ASSIGN_OR_RETURN(const int64_t wanted, csv.integer(row, column, 1, kWorkersMax));
  return static_cast<int>(wanted);
}

bool is_trace(const CsvFile& csv) {
  return !csv.column("application").ok() &&
         (csv.column("job_id").ok() || csv.column("submission_time").ok());
}

// Reads a trace. Times become seconds after the first arrival, as traces count them from years
// before it.
Result<std::vector<WorkloadJob>> read_trace(const CsvFile& csv, const std::string& file) {
  FFDL_ASSIGN_OR_RETURN(const size_t name, csv.column("job_id"));
  FFDL_ASSIGN_OR_RETURN(const size_t time, csv.column("submission_time"));
  FFDL_ASSIGN_OR_RETURN(const size_t duration, csv.column("duration"));
  FFDL_ASSIGN_OR_RETURN(const size_t workers, csv.column("num_gpu"));
  std::vector<WorkloadJob> jobs;
  for (size_t row = 0; row < csv.rows(); ++row) {
    WorkloadJob job;
    job.name = csv.text(row, name);
    FFDL_ASSIGN_OR_RETURN(job.submitted_s, csv.number(row, time, kSecondsMax));
    FFDL_ASSIGN_OR_RETURN(job.duration_s, csv.number(row, duration, kSecondsMax));
    if (job.duration_s <= 0)
      return csv.error_at(row, duration, "a job of 0 s or less; leave it out");
    FFDL_ASSIGN_OR_RETURN(job.workers, read_workers(csv, row, workers));
    job.source = {.file = file,
                  .line = csv.line(row),
                  .workers_column = workers + 1,
                  .time_column = time + 1};
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return csv.error_in_header(name, "no job; add a line for each");
  std::stable_sort(jobs.begin(), jobs.end(), [](const WorkloadJob& a, const WorkloadJob& b) {
    return a.submitted_s < b.submitted_s;
  });
  const double begin_s = jobs.front().submitted_s;
  for (WorkloadJob& job : jobs) job.submitted_s -= begin_s;
  return jobs;
}

}  // namespace

Result<std::vector<WorkloadJob>> load_workload(const fs::path& file) {
  FFDL_ASSIGN_OR_RETURN(const CsvFile csv, CsvFile::read(file));
  if (is_trace(csv)) return read_trace(csv, file.string());
  FFDL_ASSIGN_OR_RETURN(const size_t name, csv.column("name"));
  FFDL_ASSIGN_OR_RETURN(const size_t time, csv.column("time"));
  FFDL_ASSIGN_OR_RETURN(const size_t application, csv.column("application"));
  FFDL_ASSIGN_OR_RETURN(const size_t workers, csv.column("num_replicas"));
  FFDL_ASSIGN_OR_RETURN(const size_t batch, csv.column("batch_size"));
  std::vector<WorkloadJob> jobs;
  for (size_t row = 0; row < csv.rows(); ++row) {
    WorkloadJob job;
    job.name = csv.text(row, name);
    job.application = csv.text(row, application);
    FFDL_ASSIGN_OR_RETURN(job.submitted_s, csv.number(row, time, kSecondsMax));
    if (job.submitted_s < 0) return csv.error_at(row, time, "a time below 0; count from the start");
    FFDL_ASSIGN_OR_RETURN(job.workers, read_workers(csv, row, workers));
    FFDL_ASSIGN_OR_RETURN(job.batch, csv.integer(row, batch, 1, kBatchMax));
    job.source = {file.string(), csv.line(row), workers + 1, batch + 1, application + 1, time + 1};
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return csv.error_in_header(name, "no job; add a line for each");
  return jobs;
}

Result<std::map<std::string, ApplicationProfile>> load_profiles(const fs::path& folder) {
  std::error_code failure;
  std::map<std::string, ApplicationProfile> profiles;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (!entry->is_directory()) continue;
    FFDL_ASSIGN_OR_RETURN(ApplicationProfile profile, load_profile(entry->path()));
    profiles.emplace(profile.name, std::move(profile));
  }
  if (failure) {
    return base::make_error(StatusCode::kNotFound, "read '{}': {}; name a folder of profiles",
                            folder.string(), failure.message());
  }
  if (profiles.empty()) {
    return base::invalid_argument("read '{}': no profile; each is a folder with placements.csv",
                                  folder.string());
  }
  return profiles;
}

}  // namespace ffdl::cluster
