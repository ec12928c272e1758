// Reads arbitrary bytes as a data file of each format that indexes its own samples, compressed or
// not. It is refused, or has samples within its bounds, the same in memory of the caller. Reads
// them as a shard and as the index of shards, too. A commit log is refused, or can be audited.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "data/formats/contiguous_samples.h"
#include "data/formats/shard_index.h"
#include "data/formats/shard_table.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/data/data_source.h"

namespace {

using namespace ffdl;

// Reads all samples of a data set, some bytes of each, so that a sanitizer checks their places.
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

// Reads many samples at once, into memory of exactly their size. They are the same.
void read_together(const DataSource& source) {
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < source.samples() && i < 1000; ++i) numbers.push_back(i);
  SampleBatch batch;
  if (!source.read(numbers, batch).ok()) return;
  std::vector<std::byte> memory(data::bytes_together(batch.samples()));
  SampleBatch together;
  const auto filled = source.read_into(numbers, memory, together);
  FFDL_CHECK(filled.ok() && filled->size() == memory.size(), "there is room");
  FFDL_CHECK(together.skipped() == batch.skipped(), "the same are left out");
  for (size_t i = 0; i < batch.size(); ++i) {
    FFDL_CHECK(std::ranges::equal(together[i], batch[i]), "the same bytes");
  }
}

void read_as(Result<std::unique_ptr<DataSource>> source) {
  if (!source.ok()) return;
  read_all(**source);
  read_together(**source);
}

// Reads a shard with an index that agrees with it, and samples with two columns.
void read_as_shard(const std::string& path) {
  auto file = data::InputFile::open(path);
  FFDL_CHECK(file.ok(), "it was just written");
  uint32_t samples = 0;
  if ((*file)->size() < sizeof samples) return;
  FFDL_CHECK((*file)->read(0, std::as_writable_bytes(std::span(&samples, 1))).ok(), "so large");
  const data::ShardContents said = {(*file)->size(), samples};
  const data::FindSamples find = [said](data::FileScanner& scanner, bool) {
    return data::find_shard_samples(scanner, said);
  };
  auto source = data::open_file(std::move(*file), {}, find);
  if (!source.ok()) return;
  FFDL_CHECK((*source)->samples() == samples, "as it says");
  read_all(**source);
  read_together(**source);
  const ShardColumn columns[] = {{"a", "int", 8}, {"b", "bytes", 0}};
  SampleBatch batch;
  const uint64_t first = 0;
  if (samples > 0 && (*source)->read(std::span(&first, 1), batch).ok()) {
    static_cast<void>(shard_fields(batch[0], columns));
  }
}

void read_as_index(std::string_view text) {
  const auto index = data::parse_shard_index(text);
  if (!index.ok()) return;
  for (const data::Shard& shard : index->shards) {
    FFDL_CHECK(shard.plain.name.find("../") == std::string::npos && shard.plain.name[0] != '/',
               "a file of the folder");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = memfd_create("fuzz", MFD_CLOEXEC);
  FFDL_CHECK(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "memory is there");
  const std::vector<std::string> paths = {"/proc/self/fd/" + std::to_string(file)};
  for (const bool skip_corrupt : {false, true}) {
    for (const bool access : {false, true}) {
      const FileOptions options = {
          .mapped = access, .skip_corrupt = skip_corrupt, .unpacked_bytes = 1 << 20};
      read_as(open_npy(paths, options));
      read_as(open_tf_records(paths, options));
      read_as(open_tar_shards(paths, options));
      read_as(open_json_lines(paths, options));
    }
  }
  read_as_shard(paths[0]);
  read_as_index({reinterpret_cast<const char*>(data), size});
  static_cast<void>(audit_commit_logs(paths, {.complete = true}));
  static_cast<void>(tar_fields(std::as_bytes(std::span(data, size))));
  close(file);
  return 0;
}
