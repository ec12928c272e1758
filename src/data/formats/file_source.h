#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/file_extents.h"
#include "data/formats/input_file.h"
#include "data/formats/sample_check.h"
#include "ffdl/data/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// The places of the samples in one file. The formats differ in nothing else.
struct SampleTable {
  SampleFormat format{};
  // Samples of one size: sample i is at first + i * stride. Otherwise they are listed.
  uint64_t count = 0;
  uint64_t first = 0;
  uint64_t stride = 0;
  std::vector<Extent> listed{};
  uint64_t trailer_bytes = 0;  // length of the checked trailer at the end of each extent
  // Returns what is wrong with the bytes of an extent, or "".
  std::string_view (*check)(std::span<const std::byte> stored) = nullptr;
  SkippedData skipped{};  // when the file was opened

  uint64_t samples() const { return format.is_fixed ? count : listed.size(); }
  Extent extent(uint64_t sample) const {
    if (!format.is_fixed) return listed[static_cast<size_t>(sample)];
    return {first + sample * stride, format.bytes};
  }
  // Checks `stored`, the bytes of a sample, and adds them to a batch.
  Status add(uint64_t sample, std::span<const std::byte> stored, const SampleCheck& checked,
             SampleBatch& batch) const;
};

// Reads the samples of one file.
class FileSource final : public DataSource {
 public:
  FileSource(std::unique_ptr<InputFile> file, SampleTable table, bool skip_corrupt, bool is_mapped)
      : file_(std::move(file)),
        table_(std::move(table)),
        is_mapped_(is_mapped),
        checked_(file_->path(), skip_corrupt, table_.skipped) {}

  const InputFile& file() const { return *file_; }

  uint64_t samples() const override { return table_.samples(); }
  SampleFormat format() const override { return table_.format; }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override;
  SkippedData skipped() const override { return checked_.skipped(); }

 private:
  struct Hull;

  Hull hull_of(std::span<const uint64_t> indices, uint64_t low, uint64_t high) const;
  std::vector<Extent> extents_of(std::span<const uint64_t> indices) const;
  std::vector<Extent> stretches_of(std::span<const uint64_t> indices, const Hull& hull) const;
  Status read_mapped(std::span<const uint64_t> indices, const Hull& hull, SampleBatch& batch) const;
  Status read_stretches(std::span<const uint64_t> indices, const Hull& hull,
                        std::span<const Extent> stretches, SampleBatch& batch) const;
  Status read_in_place(std::span<const uint64_t> indices, const Hull& hull,
                       SampleBatch& batch) const;
  // Adds the samples in the order of `indices`. bytes(extent) returns the bytes of an extent.
  template <class Bytes>
  Status add_all(std::span<const uint64_t> indices, Bytes bytes, SampleBatch& batch) const;

  const std::unique_ptr<InputFile> file_;
  const SampleTable table_;
  const bool is_mapped_;
  const SampleCheck checked_;
};

// Opens each path, calls `find` to locate its samples, and joins the files.
using FindSamples = std::function<Result<SampleTable>(FileScanner& file, bool skip_corrupt)>;
Result<std::unique_ptr<DataSource>> open_files(const std::vector<std::string>& paths,
                                               const FileOptions& options, const FindSamples& find);
// Opens the samples of one open file.
Result<std::unique_ptr<FileSource>> open_file(std::unique_ptr<InputFile> file,
                                              const FileOptions& options, const FindSamples& find);

// Handles unexpected content at a byte of a file. Returns the error. With kSkip, records instead
// that the rest of the file is left out.
Status give_up_rest(const FileScanner& file, uint64_t offset, std::string_view what,
                    bool skip_corrupt, SampleTable& table);

// Stores a list of samples of different sizes, and their average size.
void add_listed(SampleTable& table, std::vector<Extent> listed);

}  // namespace ffdl::data
