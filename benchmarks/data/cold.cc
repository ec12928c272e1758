#include "benchmarks/data/cold.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "benchmarks/data/reading_job.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/limits.h"

namespace ffdl::bench {
namespace {

// Reads a whole file from the disk, in pieces of `bytes`, a multiple of the disk's block size.
class DirectReader {
 public:
  static Result<std::unique_ptr<DirectReader>> open(const std::string& path, size_t bytes) {
    auto reader = std::unique_ptr<DirectReader>(new DirectReader(bytes));
    reader->fd_ = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (reader->fd_ >= 0) return reader;
    return Status(StatusCode::kUnimplemented, "its file system has no O_DIRECT");
  }
  ~DirectReader() {
    if (fd_ >= 0) ::close(fd_);
    std::free(buffer_);
  }
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;

  Result<double> seconds(size_t file_bytes) {
    size_t at = 0;
    const double seconds = seconds_of([&] {
      for (ssize_t got = 1; got > 0; at += static_cast<size_t>(std::max<ssize_t>(got, 0))) {
        got = ::pread(fd_, buffer_, bytes_, static_cast<off_t>(at));
      }
    });
    if (at == file_bytes) return seconds;
    return Status(StatusCode::kUnavailable, "read past the system's memory: it ended early");
  }

 private:
  explicit DirectReader(size_t bytes)
      : bytes_(bytes), buffer_(std::aligned_alloc(size_t{4} << 10, bytes)) {}

  const size_t bytes_;
  void* const buffer_;
  int fd_ = -1;
};

struct ColdRow {
  std::string name{};
  Shape shape{};
  SampleOrder order = SampleOrder::kOnDemand;
  double target = 0;  // 0: none
  int pairs = 30;
  bool is_ahead = false;  // the limit is the same job without reading ahead, instead of the disk
  std::string note{};
};

constexpr DataPipelineOptions kAhead = {.threads = 2, .read_ahead_bytes = uint64_t{16} << 20};

// Reads an epoch of a file that is only on the disk. A batch or two, which were read ahead, are in
// memory already.
Result<double> cold_epoch(RecordFile& file, Reading& reading, uint64_t sum) {
  if (file.evict()) return reading.epoch(sum);
  return Status(StatusCode::kUnavailable, "evict the file: it stays in memory");
}

Status cold_row(Suite& suite, const ColdRow& row) {
  if (!suite.wants(row.name)) return {};
  FFDL_ASSIGN_OR_RETURN(const auto file, RecordFile::make(row.shape));
  const auto open = [&](const DataPipelineOptions& options) {
    return Reading::open(file->path(), row.shape, {.pipeline = options, .order = row.order});
  };
  FFDL_ASSIGN_OR_RETURN(const auto reading, open(kAhead));
  FFDL_ASSIGN_OR_RETURN(const auto alone, open({.threads = 0}));
  FFDL_ASSIGN_OR_RETURN(const auto order, reading->order());
  const uint64_t sum = sum_of_records(file->bytes(), row.shape.record_bytes, order, {});
  const auto direct = DirectReader::open(file->path(), size_t{4} << 20);
  if (!direct.ok() || !file->evict()) {
    suite.missing(row.name,
                  "the folder for temporary files is not on a disk that can be read past the "
                  "system's memory; set TMPDIR to one that is");
    return {};
  }
  const double megabytes = 1e-6 * static_cast<double>(file->bytes().size());
  suite.measure(PairSpec{
      .name = row.name,
      .unit = "MB/s",
      .figure = [=](double seconds) { return megabytes / seconds; },
      .subject = [&] { return cold_epoch(*file, *reading, sum); },
      .limit = [&]() -> Result<double> {
        if (row.is_ahead) return cold_epoch(*file, *alone, sum);
        return (*direct)->seconds(file->bytes().size());
      },
      .limit_is = row.is_ahead ? "the same without reading ahead"
                               : "the whole file by O_DIRECT in pieces of 4 MiB, in one thread",
      .pairs = suite.options().smoke ? 1 : row.pairs,
      .warm_up = 1,
      .target = row.target > 0 ? std::optional(Target{row.target, false}) : std::nullopt,
      .note = row.note});
  return {};
}

}  // namespace

void cold_rows(Suite& suite) {
  const bool smoke = suite.options().smoke;
  // Large enough that the samples read ahead for the next epoch do not count.
  const Shape small = {.records = 1'000'000, .record_bytes = 256, .partition = 16384, .batch = 256};
  const Shape large = {.records = 4'000, .record_bytes = 100'000, .partition = 64, .batch = 32};
  const ColdRow rows[] = {
      {.name = "data/cold_disk/small",
       .shape = small,
       .target = 0.9,
       .note = "records of 256 B that are on the disk alone, shuffled within partitions of 4 MiB, "
               "two threads that read ahead"},
      {.name = "data/cold_disk/large",
       .shape = kLarge,
       .target = 0.9,
       .pairs = 15,
       .note = "the same with records of 100 kB and partitions of 6.4 MB"},
      {.name = "data/cold_disk/global",
       .shape = large,
       .order = SampleOrder::kGlobal,
       .note = "records of 100 kB in one order for all members, read ahead by its forecast"},
      {.name = "data/cold_disk/global_ahead",
       .shape = large,
       .order = SampleOrder::kGlobal,
       .target = 1,
       .is_ahead = true,
       .note = "the same"}};
  for (ColdRow row : rows) {
    if (smoke) row.shape = tiny(row.shape);
    if (const Status status = cold_row(suite, row); !status.ok()) suite.failed(row.name, status);
  }
}

}  // namespace ffdl::bench
