#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/quiet.h"
#include "benchmarks/harness/report.h"

namespace ffdl::bench {

struct SuiteOptions {
  std::string json = {};  // file to write; empty: only the table
  std::string lock = {};  // empty: "lock" beside the JSON file
  std::string only = {};  // rows with names that contain this text
  bool slow = false;      // more pairs and larger sizes; takes longer than 15 minutes
  bool smoke = false;     // tiny sizes, few pairs, no verdicts: checks that everything runs
  int repeats = 2;        // further attempts at a disturbed row
  uint64_t seed = 1;      // of the bootstrap
};

// A row that is a ratio: the subject against its limit, for the same work.
struct PairSpec {
  std::string name = {};
  std::string unit = {};
  std::function<double(double)> figure = {};  // seconds of one turn -> value in the unit
  Turn subject = {};
  Turn limit = {};
  std::string limit_is = {};
  int pairs = 150;
  int warm_up = 5;
  double allowed_s = 0;  // allowed by traffic or ping-pong for a turn of the limit; 0: not checked
  std::optional<Target> target = std::nullopt;
  std::string note = {};
};

// A row without a limit: samples of a value.
struct ValueSpec {
  std::string name = {};
  std::string unit = {};
  Turn sample = {};  // returns the value in the unit
  int samples = 30;
  int warm_up = 1;
  std::optional<Target> target = std::nullopt;
  std::string note = {};
};

// Rows that are sampled together, one value for each row.
struct ValuesSpec {
  std::vector<ValueSpec> rows = {};  // sample, samples and warm_up of these are ignored
  std::function<Result<std::vector<double>>()> sample = {};
  int samples = 30;
  int warm_up = 1;
};

// The rows of one benchmark program, measured in sequence and repeated when disturbed.
// Threads: one.
// Owns: the run lock, while a file is written.
class Suite {
 public:
  // Serves as main() of a benchmark: reads the command line, measures `rows`, returns the exit
  // code.
  static int run(const std::string& name, int argc, char** argv,
                 const std::function<void(Suite&)>& rows);

  const std::string& name() const { return name_; }
  const SuiteOptions& options() const { return options_; }
  bool wants(const std::string& row) const;

  void measure(PairSpec spec);
  std::optional<double> measure(ValueSpec spec);  // the median
  void measure(ValuesSpec spec);
  // Measures the limit against itself as "<spec.name>/aa", regardless of --only.
  void self_check(PairSpec spec);

  // Adds a row that cannot be measured here, and the reason.
  void missing(const std::string& row, const std::string& reason);
  // Adds a row that failed to be measured: the run fails.
  void failed(const std::string& row, const Status& status);

 private:
  // Returns an exit code if the program should end at once.
  static std::optional<int> parse(const std::string& name, int argc, char** argv,
                                  SuiteOptions& options, std::string& command);
  static Result<Suite> open(std::string name, std::string command, SuiteOptions options);
  // Returns the file of the rows so far, beside the JSON file, while rows are measured.
  std::string rows_so_far() const { return options_.json + ".rows"; }
  // Prints the table, writes the file, returns the exit code.
  int finish();
  Suite(std::string name, std::string command, SuiteOptions options);
  // Adds the rows of the best attempt. Returns false if one failed.
  bool repeat_until_quiet(
      const std::string& name,
      const std::function<Result<std::vector<Row>>(std::function<void(double)>)>& attempt);
  bool measure_rows(const ValuesSpec& spec);
  bool time_is_up() const;
  void add(Row row);

  std::string name_;
  SuiteOptions options_;
  std::optional<RunLock> lock_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Report report_;
  bool failed_ = false;
};

}  // namespace ffdl::bench
