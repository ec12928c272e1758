// Reads arbitrary bytes as a data file of each format that says itself where its samples lie: it is
// refused, or gives samples that lie in it. And as a commit log: it is refused, or can be audited.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "ffdl/commit_log.h"
#include "ffdl/data_source.h"

namespace {

using namespace ffdl;

// Reads all samples of a data set, some bytes of each, so that a sanitizer sees where they lie.
uint64_t read_all(const DataSource& source) {
  uint64_t sum = 0;
  SampleBatch batch;
  for (uint64_t i = 0; i < source.samples() && i < 1000; ++i) {
    batch.clear();
    if (!source.read(std::span(&i, 1), batch).ok()) continue;
    FFDL_CHECK(batch.size() == 1, "one for each");
    for (const std::byte b : batch[0]) sum += static_cast<uint64_t>(b);
    static_cast<void>(tar_fields(batch[0]));
  }
  return sum;
}

void read_as(OpenedSource source) {
  if (source.ok()) read_all(**source);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = memfd_create("fuzz", MFD_CLOEXEC);
  FFDL_CHECK(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "memory is there");
  const Paths paths = {"/proc/self/fd/" + std::to_string(file)};
  for (const OnCorrupt on_corrupt : {OnCorrupt::kFail, OnCorrupt::kSkip}) {
    for (const FileAccess access : {FileAccess::kCopied, FileAccess::kMapped}) {
      const FileOptions options = {access, on_corrupt};
      read_as(open_npy(paths, options));
      read_as(open_tf_records(paths, options));
      read_as(open_tar_shards(paths, options));
      read_as(open_lines(paths, {.json = true}, options));
    }
  }
  static_cast<void>(audit_commit_logs(paths, {.complete = true}));
  static_cast<void>(tar_fields(std::as_bytes(std::span(data, size))));
  close(file);
  return 0;
}
