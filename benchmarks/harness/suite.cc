#include "benchmarks/harness/suite.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <utility>

#include "benchmarks/harness/progress.h"
#include "benchmarks/harness/source_folder.h"

namespace ffdl::bench {
namespace {

constexpr int kSmokePairs = 3;
// A run ends within 15 minutes: no row is repeated after this time.
constexpr std::chrono::minutes kRepeatUntil{6};
// A limit below this part of the speed that the memory allows would flatter the subject.
constexpr double kLimitSpeedMin = 0.8;

// Returns the commit of the sources that this program was built from, with "-dirty" if they differ.
std::string source_commit() {
  const std::string git = fmt::format(
      "git -C '{}' describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null", kSourceFolder);
  std::string commit;
  if (FILE* pipe = popen(git.c_str(), "r")) {
    std::array<char, 128> line{};
    if (fgets(line.data(), line.size(), pipe) != nullptr) commit = line.data();
    pclose(pipe);
  }
  commit.erase(std::remove(commit.begin(), commit.end(), '\n'), commit.end());
  return commit.empty() ? "unknown" : commit;
}

void append(std::string& note, const std::string& more) {
  if (!note.empty()) note += "; ";
  note += more;
}

}  // namespace

int Suite::run(const std::string& name, int argc, char** argv,
               const std::function<void(Suite&)>& rows) {
  SuiteOptions options;
  std::string command;
  if (const auto code = parse(name, argc, argv, options, command)) return *code;
  auto suite = open(name, command, options);
  if (!suite.ok()) {
    fmt::print(stderr, "{}\n", suite.status().to_string());
    return 1;
  }
  rows(*suite);
  return suite->finish();
}

std::optional<int> Suite::parse(const std::string& name, int argc, char** argv,
                                SuiteOptions& options, std::string& command) {
  CLI::App app("Measures " + name + " as benchmarks/README.md says", "bench_" + name);
  app.add_option("--json", options.json, "file to write");
  app.add_option("--lock", options.lock, "file to lock (default: 'lock' beside the JSON file)");
  app.add_option("--only", options.only, "only rows whose name holds this text");
  app.add_option("--repeats", options.repeats, "further attempts at a disturbed row");
  app.add_option("--seed", options.seed, "of the bootstrap");
  app.add_flag("--slow", options.slow, "longer than 15 minutes, more pairs and sizes");
  app.add_flag("--smoke", options.smoke, "tiny sizes and few pairs: only whether it runs");
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  return std::nullopt;
}

Suite::Suite(std::string name, std::string command, SuiteOptions options)
    : name_(std::move(name)), options_(std::move(options)) {
  report_.machine = this_machine();
  report_.commit = source_commit();
  report_.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  report_.command = std::move(command);
}

Result<Suite> Suite::open(std::string name, std::string command, SuiteOptions options) {
  Suite suite(std::move(name), std::move(command), std::move(options));
  std::string path = suite.options_.lock;
  if (path.empty() && !suite.options_.json.empty()) {
    path = std::filesystem::absolute(suite.options_.json).parent_path() / "lock";
  }
  if (!path.empty()) {
    FFDL_ASSIGN_OR_RETURN(RunLock lock, RunLock::take(std::filesystem::absolute(path)));
    suite.lock_.emplace(std::move(lock));
  }
  return suite;
}

bool Suite::wants(const std::string& row) const {
  return row.find(options_.only) != std::string::npos;
}

bool Suite::time_is_up() const {
  return !options_.slow && std::chrono::steady_clock::now() - begin_ > kRepeatUntil;
}

void Suite::add(Row row) {
  if (!options_.smoke) fmt::print(stderr, "{}\n", to_line(row));
  report_.rows.push_back(std::move(row));
  // Keeps the rows so far for a user who ends this program early.
  if (!options_.json.empty()) static_cast<void>(write_json(report_, rows_so_far()));
}

bool Suite::repeat_until_quiet(
    const std::string& name,
    const std::function<Result<std::vector<Row>>(std::function<void(double)>)>& attempt) {
  const int attempts = options_.smoke ? 1 : 1 + options_.repeats;
  std::vector<Row> best;
  double best_share = 1;
  for (int i = 0; i < attempts && (i == 0 || !time_is_up()); ++i) {
    Progress progress(
        i == 0 ? name : fmt::format("{} (again, {:.0f} % was not ours)", name, best_share * 100));
    const CpuSample before = sample_cpu();
    Result<std::vector<Row>> rows = attempt([&](double share) { progress.show(share); });
    if (!rows.ok()) {
      failed(name, rows.status());
      return false;
    }
    const double share = foreign_share(before, sample_cpu());
    for (Row& row : *rows) {
      if (share <= kForeignShareMax) break;
      row.disturbed = true;
      append(row.note, fmt::format("other processes used {:.0f} % of the processors", share * 100));
    }
    const auto is_disturbed = [](const std::vector<Row>& all) {
      return std::ranges::any_of(all, &Row::disturbed);
    };
    if (best.empty() || !is_disturbed(*rows) || (is_disturbed(best) && share < best_share)) {
      best = *rows;
    }
    best_share = std::min(best_share, share);
    if (!is_disturbed(best)) break;
  }
  for (Row& row : best) {
    if (options_.smoke) row.target.reset();
    add(std::move(row));
  }
  return true;
}

void Suite::measure(PairSpec spec) {
  if (options_.smoke) spec.pairs = spec.warm_up = std::min(spec.pairs, kSmokePairs);
  repeat_until_quiet(spec.name, [&](std::function<void(double)> done) -> Result<std::vector<Row>> {
    FFDL_ASSIGN_OR_RETURN(auto pairs,
                          run_pairs(spec.subject, spec.limit, spec.pairs, spec.warm_up, done));
    std::vector<double> subject;
    std::vector<double> limit;
    for (const PairTimes& pair : pairs) {
      subject.push_back(pair.subject);
      limit.push_back(pair.limit);
    }
    const double limit_s = median(std::move(limit));
    const Estimate ratio = pair_ratio(pairs, options_.seed);
    Row row{.name = spec.name,
            .unit = spec.unit,
            .limit_is = spec.limit_is,
            .note = spec.note,
            .target = spec.target};
    row.value = spec.figure(median(std::move(subject)));
    row.limit = spec.figure(limit_s);
    row.ratio = ratio.value;
    row.lo = ratio.lo;
    row.hi = ratio.hi;
    if (const double speed = spec.allowed_s / limit_s;
        spec.allowed_s > 0 && speed < kLimitSpeedMin) {
      row.disturbed = true;
      append(row.note, fmt::format("the limit ran at {:.2f} of what the machine allows", speed));
    }
    return std::vector<Row>{std::move(row)};
  });
}

std::optional<double> Suite::measure(ValueSpec spec) {
  const auto sample = [&spec]() -> Result<std::vector<double>> {
    FFDL_ASSIGN_OR_RETURN(const double value, spec.sample());
    return std::vector<double>{value};
  };
  if (!measure_rows({{spec}, sample, spec.samples, spec.warm_up})) return std::nullopt;
  return report_.rows.back().value;
}

void Suite::measure(ValuesSpec spec) { measure_rows(spec); }

bool Suite::measure_rows(const ValuesSpec& spec) {
  const int samples = options_.smoke ? std::min(spec.samples, kSmokePairs) : spec.samples;
  const auto attempt = [&](std::function<void(double)> done) -> Result<std::vector<Row>> {
    std::vector<std::vector<double>> values(spec.rows.size());
    for (int i = 0; i < spec.warm_up + samples; ++i) {
      FFDL_ASSIGN_OR_RETURN(const std::vector<double> all, spec.sample());
      for (size_t row = 0; row < values.size() && i >= spec.warm_up; ++row) {
        values[row].push_back(all.at(row));
      }
      done(static_cast<double>(i + 1) / (spec.warm_up + samples));
    }
    std::vector<Row> rows;
    for (size_t i = 0; i < spec.rows.size(); ++i) {
      const ValueSpec& one = spec.rows[i];
      const Estimate estimate = bootstrap_median(values[i], options_.seed);
      Row row{.name = one.name, .unit = one.unit, .note = one.note, .target = one.target};
      row.value = estimate.value;
      row.lo = estimate.lo;
      row.hi = estimate.hi;
      rows.push_back(std::move(row));
    }
    return rows;
  };
  return repeat_until_quiet(spec.rows.front().name, attempt);
}

void Suite::self_check(PairSpec spec) {
  spec.name += "/aa";
  spec.subject = spec.limit;
  spec.target.reset();
  measure(std::move(spec));
}

void Suite::missing(const std::string& row, const std::string& reason) {
  add({.name = row, .note = reason});
}

void Suite::failed(const std::string& row, const Status& status) {
  missing(row, "failed: " + status.to_string());
  failed_ = true;
}

int Suite::finish() {
  fmt::print("{}", to_table(report_));
  if (!options_.json.empty()) {
    if (const Status written = write_json(report_, options_.json); !written.ok()) {
      fmt::print(stderr, "{}\n", written.to_string());
      return 1;
    }
    std::error_code ignored;
    std::filesystem::remove(rows_so_far(), ignored);
  }
  if (failed_) return 1;
  return options_.smoke ? 0 : exit_code(report_);
}

}  // namespace ffdl::bench
