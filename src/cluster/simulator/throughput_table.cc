#include "cluster/simulator/throughput_table.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "cluster/plan/csv.h"
#include "cluster/plan/limits.h"

namespace ffdl::cluster {
namespace {

namespace fs = std::filesystem;

// Returns the numbers of workers in the header, without the first column.
Result<std::vector<int>> workers_of_columns(const CsvFile& csv) {
  std::vector<int> workers;
  std::set<int64_t> named;
  for (size_t column = 1; column < csv.columns(); ++column) {
    const auto number = parse_integer(csv.name(column));
    if (!number || *number < 1 || *number > INT32_MAX) {
      return csv.error_in_header(column, "not a number of workers; write a whole number from 1 on");
    }
    if (!named.insert(*number).second) {
      return csv.error_in_header(column, "this number of workers is listed twice; list each once");
    }
    workers.push_back(static_cast<int>(*number));
  }
  return workers;
}

// A batch of a table that is possible with some number of workers.
struct BatchRow {
  int64_t batch;
  std::vector<double> steps_per_second;  // 0: not possible
};

Result<std::vector<BatchRow>> read_rows(const CsvFile& csv) {
  std::vector<BatchRow> rows;
  std::set<int64_t> named;
  for (size_t row = 0; row < csv.rows(); ++row) {
    FFDL_ASSIGN_OR_RETURN(const int64_t batch, csv.integer(row, 0, 1, kBatchMax));
    BatchRow read{batch, {}};
    bool possible = false;
    for (size_t column = 1; column < csv.columns(); ++column) {
      const std::string& text = csv.text(row, column);
      const auto rate = text.empty() ? std::optional(0.0) : parse_number(text);
      if (!rate || std::abs(*rate) > kNumberMax) {
        return csv.error_at(row, column, "'{}' is not a number; write steps per second, or nan",
                            text);
      }
      if (*rate < 0) {
        return csv.error_at(
            row, column, "{} steps per second; leave the cell empty if it is not possible", text);
      }
      read.steps_per_second.push_back(*rate > 0 ? *rate : 0.0);
      possible |= *rate > 0;
    }
    if (named.contains(batch)) {
      return csv.error_at(row, 0, "batch {} is listed twice; list each once", batch);
    }
    if (!possible) continue;
    named.insert(batch);
    rows.push_back(std::move(read));
  }
  if (rows.empty()) {
    return csv.error_in_header(0, "no possible size in {} lines; give at least one cell above 0",
                               csv.rows());
  }
  return rows;
}

std::vector<SizeOption> best_sizes(const std::vector<BatchRow>& rows,
                                   const std::vector<int>& workers) {
  std::vector<SizeOption> sizes;
  for (size_t i = 0; i < workers.size(); ++i) {
    SizeOption best{.workers = workers[i]};
    for (const BatchRow& row : rows) {
      const double rate = row.steps_per_second[i] * static_cast<double>(row.batch);
      if (rate > best.value) best.value = rate, best.batch = row.batch;
    }
    if (best.value > 0) sizes.push_back(best);
  }
  std::sort(sizes.begin(), sizes.end(),
            [](const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; });
  const double one_worker = sizes[0].value / sizes[0].workers;
  for (SizeOption& size : sizes) size.value /= one_worker;
  return sizes;
}

Result<JobRequest> load_table(const fs::path& path, BatchChoice choice) {
  FFDL_ASSIGN_OR_RETURN(const CsvFile csv, CsvFile::read(path));
  FFDL_ASSIGN_OR_RETURN(const std::vector<int> workers, workers_of_columns(csv));
  FFDL_ASSIGN_OR_RETURN(std::vector<BatchRow> rows, read_rows(csv));
  const auto [least, most] =
      std::minmax_element(rows.begin(), rows.end(),
                          [](const BatchRow& a, const BatchRow& b) { return a.batch < b.batch; });
  if (choice == BatchChoice::kMin) rows = {*least};
  if (choice == BatchChoice::kMax) rows = {*most};
  JobRequest job;
  job.name = path.stem().string();
  job.sizes = best_sizes(rows, workers);
  const auto smallest = std::find(workers.begin(), workers.end(), job.sizes[0].workers);
  job.source =
      fmt::format("'{}': line 1, column {}", path.string(), smallest - workers.begin() + 2);
  return job;
}

}  // namespace

namespace {

// Returns the tables in order of name.
Result<std::vector<fs::path>> tables_in(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> paths;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (entry->path().extension() == ".csv") paths.push_back(entry->path());
  }
  if (failure) {
    return base::make_error(StatusCode::kNotFound, "read '{}': {}; name a folder of tables",
                            folder.string(), failure.message());
  }
  if (paths.empty()) {
    return base::invalid_argument("read '{}': it has no '*.csv'; name a folder of tables",
                                  folder.string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<std::map<std::string, ApplicationProfile>> load_throughput_profiles(const fs::path& folder) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<fs::path> paths, tables_in(folder));
  std::map<std::string, ApplicationProfile> profiles;
  for (const fs::path& path : paths) {
    FFDL_ASSIGN_OR_RETURN(const CsvFile csv, CsvFile::read(path));
    FFDL_ASSIGN_OR_RETURN(const std::vector<int> workers, workers_of_columns(csv));
    FFDL_ASSIGN_OR_RETURN(const std::vector<BatchRow> rows, read_rows(csv));
    ApplicationProfile& profile = profiles[path.stem().string()];
    profile.name = path.stem().string();
    for (const BatchRow& row : rows) {
      for (size_t i = 0; i < workers.size(); ++i) {
        const double rate = row.steps_per_second[i];
        if (rate > 0) profile.throughputs[row.batch][workers[i]] = rate;
      }
    }
  }
  return profiles;
}

Result<std::vector<JobRequest>> load_throughput_tables(const fs::path& folder, BatchChoice batch) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<fs::path> paths, tables_in(folder));
  std::vector<JobRequest> jobs;
  for (const fs::path& path : paths) {
    FFDL_ASSIGN_OR_RETURN(JobRequest job, load_table(path, batch));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace ffdl::cluster
