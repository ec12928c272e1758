#include "benchmarks/data/cold.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "benchmarks/data/reading_job.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/limits.h"

namespace ffdl::bench {
namespace {

// Reads a whole file from the disk itself, in pieces of `bytes`, a multiple of the disk's blocks.
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

Status cold_row(Suite& suite, const std::string& name, const Shape& shape,
                const DataPipelineOptions& options, const std::string& note) {
  if (!suite.wants(name)) return {};
  FFDL_ASSIGN_OR_RETURN(const auto file, RecordFile::make(shape));
  FFDL_ASSIGN_OR_RETURN(const auto reading,
                        Reading::open(file->path(), shape, {.pipeline = options}));
  FFDL_ASSIGN_OR_RETURN(const auto order, reading->order());
  const uint64_t sum = sum_of_records(file->bytes(), shape.record_bytes, order, {});
  const auto direct = DirectReader::open(file->path(), size_t{4} << 20);
  if (!direct.ok() || !file->evict()) {
    suite.missing(name,
                  "the folder for temporary files is not on a disk that can be read past the "
                  "system's memory; set TMPDIR to one that is");
    return {};
  }
  const double megabytes = 1e-6 * static_cast<double>(file->bytes().size());
  suite.measure(PairSpec{.name = name,
                         .unit = "MB/s",
                         .figure = [=](double seconds) { return megabytes / seconds; },
                         .subject = [&]() -> Result<double> {
                           // What was read ahead of the next epoch is in memory already: a batch or
                           // two.
                           if (!file->evict()) {
                             return Status(StatusCode::kUnavailable,
                                           "evict the file: it stays in memory");
                           }
                           return reading->epoch(sum);
                         },
                         .limit = [&] { return (*direct)->seconds(file->bytes().size()); },
                         .limit_is = "the whole file by O_DIRECT in pieces of 4 MiB, in one thread",
                         .pairs = suite.options().smoke ? 1 : 30,
                         .warm_up = 1,
                         .target = Target{0.9, false},
                         .note = note});
  return {};
}

}  // namespace

void cold_rows(Suite& suite) {
  const bool smoke = suite.options().smoke;
  // Large enough that what is read ahead of the next epoch does not count.
  const Shape small = {.records = 1'000'000, .record_bytes = 256, .partition = 16384, .batch = 256};
  const Shape large = {.records = 4'000, .record_bytes = 100'000, .partition = 64, .batch = 32};
  const DataPipelineOptions options = {.threads = 2, .read_ahead_bytes = uint64_t{16} << 20};
  const auto row = [&](const std::string& name, const Shape& shape, const std::string& note) {
    const Status status = cold_row(suite, name, smoke ? tiny(shape) : shape, options, note);
    if (!status.ok()) suite.failed(name, status);
  };
  row("data/cold_disk/small", small,
      "records of 256 B that are on the disk alone, shuffled within partitions of 4 MiB, two "
      "threads that read ahead");
  row("data/cold_disk/large", large, "the same with records of 100 kB and partitions of 6.4 MB");
}

}  // namespace ffdl::bench
