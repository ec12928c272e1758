#include "benchmarks/data/reading.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <vector>

#include "benchmarks/harness/folder.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/limits.h"
#include "ffdl/data_pipeline.h"

namespace ffdl::bench {
namespace {

// Records of one size, how many a partition has and how many a step takes.
struct Shape {
  uint64_t records = 0;
  uint64_t record_bytes = 0;
  uint64_t partition = 0;
  uint64_t batch = 0;
};

constexpr Shape kSmall = {200'000, 256, 4096, 256};
constexpr Shape kLarge = {2'000, 100'000, 64, 32};

Shape tiny(Shape shape) {
  shape.records /= 100;
  return shape;
}

// A file of records in a folder of its own, and in memory for the limits.
class RecordFile {
 public:
  static Result<std::unique_ptr<RecordFile>> make(const Shape& shape) {
    FFDL_ASSIGN_OR_RETURN(const std::string folder, make_folder());
    auto file = std::unique_ptr<RecordFile>(new RecordFile(folder, shape));
    FFDL_RETURN_IF_ERROR(file->fill());
    return file;
  }
  ~RecordFile() {
    if (map_.data() != nullptr) munmap(const_cast<std::byte*>(map_.data()), map_.size());
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const Shape& shape() const { return shape_; }
  std::string path() const { return folder_ + "/records"; }
  std::span<const std::byte> bytes() const { return map_; }

 private:
  RecordFile(std::string folder, const Shape& shape) : folder_(std::move(folder)), shape_(shape) {}

  Status fill() {
    std::vector<uint64_t> record(shape_.record_bytes / sizeof(uint64_t));
    std::ofstream out(path(), std::ios::binary);
    uint64_t number = 1;
    for (uint64_t i = 0; i < shape_.records; ++i) {
      for (uint64_t& word : record) word = number *= 0x9e3779b97f4a7c15U;
      out.write(reinterpret_cast<const char*>(record.data()),
                static_cast<std::streamsize>(shape_.record_bytes));
    }
    out.close();
    const int fd = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
    const size_t size = shape_.records * shape_.record_bytes;
    void* map = fd < 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) ::close(fd);
    if (!out || map == MAP_FAILED) {
      return Status(StatusCode::kUnavailable,
                    fmt::format("write '{}': it could not be written and mapped", path()));
    }
    map_ = {static_cast<const std::byte*>(map), size};
    return {};
  }

  const std::string folder_;
  const Shape shape_;
  std::span<const std::byte> map_{};
};

// A job of one member that reads a file, epoch after epoch.
class Reading {
 public:
  static Result<std::unique_ptr<Reading>> open(const std::string& path, const Shape& shape,
                                               FileAccess access,
                                               const DataPipelineOptions& options) {
    auto reading = std::make_unique<Reading>();
    reading->batch_samples_ = shape.batch;
    FFDL_ASSIGN_OR_RETURN(
        reading->source_,
        open_records({path}, {.record_bytes = shape.record_bytes}, {.access = access}));
    FFDL_ASSIGN_OR_RETURN(reading->ledger_,
                          PartitionLedger::create({.samples = reading->source_->samples(),
                                                   .partition_samples = shape.partition,
                                                   .epochs = 0,
                                                   .shuffle = Shuffle::kSamples}));
    World world;
    world.members = {{"worker", 1}};
    reading->ledger_->world_changed(world);
    FFDL_ASSIGN_OR_RETURN(reading->pipeline_,
                          DataPipeline::create(*reading->source_, *reading->ledger_, options));
    return reading;
  }

  // The next batch; the step that uses it is applied before the one after it.
  Result<uint64_t> sum_of_batch() {
    FFDL_RETURN_IF_ERROR(pipeline_->next(batch_, batch_samples_));
    uint64_t sum = 0;
    for (const auto& sample : batch_.samples) sum += sum_of(sample);
    std::vector<std::byte>& record = record_;
    record.resize(ledger_->record_bytes());
    ledger_->describe(record);
    ledger_->applied(++step_, StepRecords(record, record.size(), record.size()));
    return sum;
  }

  // Seconds of one epoch, which must give this sum.
  Result<double> epoch(uint64_t expected) {
    const auto begin = std::chrono::steady_clock::now();
    const uint64_t now = ledger_->epoch();
    uint64_t sum = 0;
    while (ledger_->epoch() == now) {
      FFDL_ASSIGN_OR_RETURN(const uint64_t part, sum_of_batch());
      sum += part;
    }
    const auto end = std::chrono::steady_clock::now();
    if (sum == expected) return std::chrono::duration<double>(end - begin).count();
    return Status(StatusCode::kInternal, "read an epoch: its bytes have another sum than the file");
  }

  // The order of an epoch, for who reads without a ledger.
  Result<std::vector<uint64_t>> order() {
    std::vector<uint64_t> all;
    for (const uint64_t now = ledger_->epoch(); ledger_->epoch() == now;) {
      FFDL_RETURN_IF_ERROR(sum_of_batch().status());
      all.insert(all.end(), batch_.indices.begin(), batch_.indices.end());
    }
    return all;
  }

 private:
  std::unique_ptr<DataSource> source_{};
  std::unique_ptr<PartitionLedger> ledger_{};
  std::unique_ptr<DataPipeline> pipeline_{};
  DataBatch batch_{};
  uint64_t batch_samples_ = 0;
  std::vector<std::byte> record_{};
  uint64_t step_ = 0;
};

// What one row reads, and how.
struct ReadingRow {
  std::string name{};
  std::string unit{};
  double units_per_epoch = 0;
  FileAccess access = FileAccess::kCopied;
  DataPipelineOptions options{};
  bool limit_copies = false;
  double target = 0;
  std::string limit_is{};
  std::string note{};
};

Status reading_row(Suite& suite, const RecordFile& file, const ReadingRow& row) {
  if (!suite.wants(row.name)) return {};
  const Shape& shape = file.shape();
  FFDL_ASSIGN_OR_RETURN(const auto reading,
                        Reading::open(file.path(), shape, row.access, row.options));
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
               .pairs = suite.options().smoke ? 3 : 150,
               .target = Target{row.target, false},
               .note = row.note});
  return {};
}

Status prefetch_row(Suite& suite, const RecordFile& file) {
  const std::string name = "data/prefetch_cost";
  if (!suite.wants(name)) return {};
  const auto open = [&](int threads) {
    return Reading::open(file.path(), file.shape(), FileAccess::kMapped, {.threads = threads});
  };
  FFDL_ASSIGN_OR_RETURN(const auto ahead, open(1));
  FFDL_ASSIGN_OR_RETURN(const auto alone, open(0));
  FFDL_ASSIGN_OR_RETURN(const auto order, alone->order());
  const uint64_t sum = sum_of_records(file.bytes(), file.shape().record_bytes, order, {});
  suite.measure(PairSpec{
      .name = name,
      .unit = "rec/s",
      .figure = [&](double seconds) { return static_cast<double>(file.shape().records) / seconds; },
      .subject = [&] { return ahead->epoch(sum); },
      .limit = [&] { return alone->epoch(sum); },
      .limit_is = "the same without a thread that reads ahead",
      .pairs = suite.options().smoke ? 3 : 150,
      .target = Target{0.9, false},
      .note = "small records where they lie, one thread reads ahead"});
  return {};
}

Status start_row(Suite& suite, const RecordFile& file) {
  const std::string name = "data/start_ms/cpp";
  if (!suite.wants(name)) return {};
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&]() -> Result<double> {
        const auto begin = std::chrono::steady_clock::now();
        FFDL_ASSIGN_OR_RETURN(const auto child,
                              Resident::start_self({"--role", "first-batch", file.path()}));
        FFDL_RETURN_IF_ERROR(child->ask("").status());
        return 1e3 *
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      },
      .samples = suite.options().smoke ? 3 : 50,
      .target = Target{5, true},
      .note = "from starting a process to its word that it has the first 256 small records"});
  return {};
}

Status small_rows(Suite& suite) {
  FFDL_ASSIGN_OR_RETURN(const auto file,
                        RecordFile::make(suite.options().smoke ? tiny(kSmall) : kSmall));
  ReadingRow row = {
      .name = "data/small_rec_per_s/1",
      .unit = "rec/s",
      .units_per_epoch = static_cast<double>(file->shape().records),
      .access = FileAccess::kMapped,
      .options = {.threads = 0},
      .target = 0.7,
      .limit_is = "a loop over the mapped file in the same order, the next records fetched ahead",
      .note = "records of 256 B, shuffled within partitions of 4096, where they lie in the mapped "
              "file, in one thread, with the ledger's steps"};
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, row));
  row.name = "data/small_rec_per_s/copied";
  row.access = FileAccess::kCopied;
  row.limit_copies = true;
  row.limit_is = "the same loop with a copy of each record into a buffer";
  row.note = "the same with the default access, which copies";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, row));
  FFDL_RETURN_IF_ERROR(prefetch_row(suite, *file));
  return start_row(suite, *file);
}

Status large_rows(Suite& suite) {
  FFDL_ASSIGN_OR_RETURN(const auto file,
                        RecordFile::make(suite.options().smoke ? tiny(kLarge) : kLarge));
  const double gigabytes = 1e-9 * static_cast<double>(file->bytes().size());
  const ReadingRow views = {
      .name = "data/large_gbps/views",
      .unit = "GB/s",
      .units_per_epoch = gigabytes,
      .access = FileAccess::kMapped,
      .options = {.threads = 0},
      .target = 0.9,
      .limit_is = "a loop over the mapped file in the same order",
      .note = "records of 100 kB, shuffled, where they lie in the mapped file, in one thread"};
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, views));
  ReadingRow copied = views;
  copied.name = "data/large_gbps/copied";
  copied.access = FileAccess::kCopied;
  copied.options = {.threads = 1, .one_buffer = true};
  copied.limit_copies = true;
  copied.target = 0.85;
  copied.limit_is = "the same loop with a copy of each record into a buffer, in one thread";
  copied.note = "records of 100 kB, shuffled, in one buffer per batch, one thread reads ahead";
  FFDL_RETURN_IF_ERROR(reading_row(suite, *file, copied));
  copied.name = "data/large_gbps/copied_alone";
  copied.options.threads = 0;
  copied.note = "the same in one thread";
  return reading_row(suite, *file, copied);
}

}  // namespace

void reading_rows(Suite& suite) {
  if (const Status status = small_rows(suite); !status.ok()) suite.failed("data/small", status);
  if (const Status status = large_rows(suite); !status.ok()) suite.failed("data/large", status);
}

int play_first_batch(const std::string& path) {
  const auto reading = Reading::open(path, kSmall, FileAccess::kCopied, {});
  if (!reading.ok()) return 1;
  const auto sum = (*reading)->sum_of_batch();
  if (!sum.ok()) return 1;
  answer("ready");
  wait_for_the_end();
  return 0;
}

}  // namespace ffdl::bench
