#include "benchmarks/data/reading.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "benchmarks/data/reading_job.h"
#include "benchmarks/data/ring_job.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/harness/script.h"
#include "benchmarks/limits.h"

namespace ffdl::bench {
namespace {

// The contents and the method of one row.
struct ReadingRow {
  std::string name{};
  std::string unit{};
  double units_per_epoch = 0;
  bool mapped = false;
  DataPipelineOptions options{};
  uint64_t window_partitions = 1;
  bool into = false;  // into memory of the job
  bool limit_copies = false;
  int pairs = 150;
  double target = 0;  // 0: none
  std::string limit_is{};
  std::string note{};
};

Status reading_row(Suite& suite, const RecordFile& file, const ReadingRow& row) {
  if (!suite.wants(row.name)) return {};
  const Shape& shape = file.shape();
  FFDL_ASSIGN_OR_RETURN(const auto reading,
                        Reading::open(file.path(), shape,
                                      {.mapped = row.mapped,
                                       .pipeline = row.options,
                                       .window_partitions = row.window_partitions,
                                       .into = row.into}));
  FFDL_ASSIGN_OR_RETURN(const auto order, reading->order());
  const uint64_t sum = sum_of_records(file.bytes(), shape.record_bytes, order, {});
  std::vector<std::byte> buffer(row.limit_copies ? shape.batch * shape.record_bytes : 0);
  suite.measure(
      PairSpec{.name = row.name,
               .unit = row.unit,
               .figure = [&](double seconds) { return row.units_per_epoch / seconds; },
               .subject = [&] { return reading->epoch(sum); },
               .limit = [&]() -> Result<double> {
                 uint64_t limit_sum = 0;
                 const double seconds = seconds_of([&] {
                   limit_sum = sum_of_records(file.bytes(), shape.record_bytes, order, buffer);
                 });
                 if (limit_sum == sum) return seconds;
                 return Status(StatusCode::kInternal, "read the records: they have another sum");
               },
               .limit_is = row.limit_is,
               .pairs = suite.options().smoke ? 3 : row.pairs,
               .target = row.target > 0 ? std::optional(Target{row.target, false}) : std::nullopt,
               .note = row.note});
  return {};
}

Result<std::unique_ptr<Reading>> open_mapped(const RecordFile& file, int threads) {
  return Reading::open(file.path(), file.shape(), {true, {.threads = threads}});
}

// Measures small records that another thread or process reads ahead, against reading them directly.
template <class Ahead>
Status prefetch_row(Suite& suite, const RecordFile& file, const std::string& name, Ahead& ahead,
                    const std::string& note) {
  FFDL_ASSIGN_OR_RETURN(const auto alone, open_mapped(file, 0));
  FFDL_ASSIGN_OR_RETURN(const auto order, alone->order());
  const uint64_t sum = sum_of_records(file.bytes(), file.shape().record_bytes, order, {});
  suite.measure(PairSpec{
      .name = name,
      .unit = "rec/s",
      .figure = [&](double seconds) { return static_cast<double>(file.shape().records) / seconds; },
      .subject = [&] { return ahead.epoch(sum); },
      .limit = [&] { return alone->epoch(sum); },
      .limit_is = "the same without reading ahead",
      .pairs = suite.options().smoke ? 3 : 150,
      .target = Target{0.9, false},
      .note = note});
  return {};
}

Status prefetch_rows(Suite& suite, const RecordFile& file) {
  std::string name = "data/prefetch_cost";
  if (suite.wants(name)) {
    FFDL_ASSIGN_OR_RETURN(const auto ahead, open_mapped(file, 1));
    FFDL_RETURN_IF_ERROR(
        prefetch_row(suite, file, name, *ahead, "small records in place, one thread reads ahead"));
  }
  name += "/process";
  if (!suite.wants(name)) return {};
  FFDL_ASSIGN_OR_RETURN(const auto ahead, RingReading::open(file.path(), file.shape().records));
  return prefetch_row(suite, file, name, *ahead,
                      "small records in a ring of batches, which another process fills");
}

Status start_row(Suite& suite, const RecordFile& file) {
  const std::string name = "data/start_ms/cpp";
  if (!suite.wants(name)) return {};
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").replace_filename("");
  const std::string program = beside / "read_first_batch";
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&]() -> Result<double> {
        const auto begin = std::chrono::steady_clock::now();
        FFDL_ASSIGN_OR_RETURN(const auto child, Resident::start({program, file.path()}));
        FFDL_RETURN_IF_ERROR(child->ask("").status());
        return 1e3 *
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      },
      .samples = suite.options().smoke ? 3 : 50,
      .target = Target{5, true},
      .note = "from starting a process to its word that it has the first 256 small records"});
  return {};
}

// Measures peers/records.py in a process of its own.
void python_rows(Suite& suite, const RecordFile& file) {
  if (suite.options().smoke) return;  // its interpreter takes longer to load than a smoke test may
  for (const int batch : {256, 4096}) {
    const std::string name = fmt::format("data/small_rec_per_s/python/{}", batch);
    if (!suite.wants(name)) continue;
    const auto script = start_script({"records.py", "read", file.path(), std::to_string(batch)});
    if (!script.ok()) {
      suite.missing(name, script.status().to_string());
      continue;
    }
    suite.measure(
        ValueSpec{.name = name,
                  .unit = "rec/s",
                  .sample = [&]() -> Result<double> {
                    FFDL_ASSIGN_OR_RETURN(const double seconds, (*script)->ask_number("1"));
                    return static_cast<double>(file.shape().records) / seconds;
                  },
                  .samples = 50,
                  .target = batch < 4096 ? std::nullopt : std::optional(Target{8e6, false}),
                  .note = fmt::format("records of 256 B in batches of {} through ElasticLoader in "
                                      "one thread, committed one by one in a store",
                                      batch)});
  }
  const std::string name = "data/start_ms/python";
  if (!suite.wants(name)) return;
  const auto first = start_script({"records.py", "start", file.path(), "256"});
  if (!first.ok()) return suite.missing(name, first.status().to_string());
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN(const auto script,
                              start_script({"records.py", "start", file.path(), "256"}));
        return script->ask_number("1");
      },
      .samples = 20,
      .target = Target{20, true},
      .note = "from the end of the imports of a new process to its first 256 small records"});
}

ReadingRow small_row(const std::string& name, const Shape& shape) {
  return {
      .name = "data/small_rec_per_s/" + name,
      .unit = "rec/s",
      .units_per_epoch = static_cast<double>(shape.records),
      .mapped = true,
      .options = {.threads = 0},
      .target = 0.7,
      .limit_is = "a loop over the mapped file in the same order, the next records fetched ahead",
      .note = fmt::format("records of {} B, shuffled within partitions of 4096, in place "
                          "in the mapped file, in one thread, with the ledger's steps",
                          shape.record_bytes)};
}

// Measures the smallest and the largest record that count as small.
Status small_row_of_size(Suite& suite, uint64_t record_bytes) {
  Shape shape = suite.options().smoke ? tiny(kSmall) : kSmall;
  shape.record_bytes = record_bytes;
  const ReadingRow row = small_row(fmt::format("{}B", record_bytes), shape);
  if (!suite.wants(row.name)) return {};
  FFDL_ASSIGN_OR_RETURN(const auto file, RecordFile::make(shape));
  return reading_row(suite, *file, row);
}

Status small_rows(Suite& suite) {
  FFDL_ASSIGN_OR_RETURN(const auto file,
                        RecordFile::make(suite.options().smoke ? tiny(kSmall) : kSmall));
  ReadingRow row = small_row("1", file->shape());
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, row));
  FFDL_RETURN_IF_ERROR(small_row_of_size(suite, 64));
  FFDL_RETURN_IF_ERROR(small_row_of_size(suite, 512));
  ReadingRow window = row;
  window.name = "data/small_rec_per_s/window";
  window.window_partitions = 8;
  window.target = 0;
  window.note = "the same, shuffled within windows of 8 of these partitions";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, window));
  row.name = "data/small_rec_per_s/read";
  row.mapped = false;
  row.limit_copies = true;
  row.target = 0;
  row.limit_is = "the same loop with a copy of each record into a buffer";
  row.note = "the same with the default access, whose copy is the system's";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, row));
  FFDL_RETURN_IF_ERROR(prefetch_rows(suite, *file));
  FFDL_RETURN_IF_ERROR(start_row(suite, *file));
  python_rows(suite, *file);
  return {};
}

Status large_rows(Suite& suite) {
  FFDL_ASSIGN_OR_RETURN(const auto file,
                        RecordFile::make(suite.options().smoke ? tiny(kLarge) : kLarge));
  const double gigabytes = 1e-9 * static_cast<double>(file->bytes().size());
  const ReadingRow views = {
      .name = "data/large_gbps/views",
      .unit = "GB/s",
      .units_per_epoch = gigabytes,
      .mapped = true,
      .options = {.threads = 0},
      .pairs = 40,
      .target = 0.9,
      .limit_is = "a loop over the mapped file in the same order",
      .note = "records of 100 kB, shuffled, in place in the mapped file, in one thread"};
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, views));
  ReadingRow copied = views;
  copied.name = "data/large_gbps/copied";
  copied.options.contiguous = true;
  copied.limit_copies = true;
  copied.target = 0.85;
  copied.limit_is = "the same loop with a copy of each record into a buffer, in one thread";
  copied.note =
      "records of 100 kB, shuffled, from the mapped file into one buffer per batch, in "
      "one thread";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, copied));
  copied.target = 0;
  copied.name = "data/large_gbps/copied_ahead";
  copied.options.threads = 1;
  copied.note = "the same by one thread that reads ahead";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, copied));
  copied.name = "data/large_gbps/read_ahead";
  copied.mapped = false;
  copied.note = "the same with the default access, whose copy is the system's, by one thread ahead";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, copied));
  ReadingRow into = copied;
  into.into = true;
  into.options = {.threads = 0};
  into.name = "data/large_gbps/read_into";
  into.note =
      "records of 100 kB, shuffled, with the default access, straight into one buffer, in one "
      "thread";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, into));
  into.options = {.threads = 1};
  into.name = "data/large_gbps/read_ahead_into";
  into.note = "the same by one thread that reads ahead, out of whose blocks they are copied";
  return reading_row(suite, *file, into);
}

}  // namespace

void reading_rows(Suite& suite) {
  if (const Status status = small_rows(suite); !status.ok()) suite.failed("data/small", status);
  if (const Status status = large_rows(suite); !status.ok()) suite.failed("data/large", status);
}

}  // namespace ffdl::bench
