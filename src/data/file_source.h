#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.h"
#include "data/sample_check.h"
#include "data/stretches.h"
#include "ffdl/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Where the samples of one file lie: all that the formats differ in.
struct SampleTable {
  SampleFormat format{};
  // Sample i is at first + i * stride if all have the same size, else it is listed.
  uint64_t count = 0;
  uint64_t first = 0;
  uint64_t stride = 0;
  std::vector<Extent> listed{};
  uint64_t trailer_bytes = 0;  // at the end of each extent, for the check, which there is then
  // What is wrong with the bytes of an extent; nothing: "".
  std::string_view (*check)(std::span<const std::byte> stored) = nullptr;
  SkippedData skipped{};  // already

  uint64_t samples() const { return format.is_fixed ? count : listed.size(); }
  Extent extent(uint64_t sample) const {
    if (!format.is_fixed) return listed[static_cast<size_t>(sample)];
    return {first + sample * stride, format.bytes};
  }
  // Adds one whose bytes are `stored`, once they are checked.
  Status add(uint64_t sample, std::span<const std::byte> stored, const SampleCheck& checked,
             SampleBatch& batch) const;
};

// The samples of one file.
class FileSource final : public DataSource {
 public:
  FileSource(std::unique_ptr<InputFile> file, SampleTable table, OnCorrupt on_corrupt,
             FileAccess access)
      : file_(std::move(file)),
        table_(std::move(table)),
        access_(access),
        checked_(file_->path(), on_corrupt, table_.skipped) {}

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
  // Each where bytes(extent) says that it lies, asked in the order of `indices`.
  template <class Bytes>
  Status add_all(std::span<const uint64_t> indices, Bytes bytes, SampleBatch& batch) const;

  const std::unique_ptr<InputFile> file_;
  const SampleTable table_;
  const FileAccess access_;
  const SampleCheck checked_;
};

// Opens each path, has `find` look where its samples lie, and joins what came of it.
using FindSamples = std::function<Result<SampleTable>(FileScanner& file, OnCorrupt on_corrupt)>;
OpenedSource open_files(const Paths& paths, const FileOptions& options, const FindSamples& find);
// One of them, which is open.
Result<std::unique_ptr<FileSource>> open_file(std::unique_ptr<InputFile> file,
                                              const FileOptions& options, const FindSamples& find);

// For who looks for samples and finds something else at a byte of a file: the error, or with kSkip
// that the rest of the file is left out.
Status give_up_rest(const FileScanner& file, uint64_t offset, std::string_view what,
                    OnCorrupt on_corrupt, SampleTable& table);

// Samples of different sizes: lists them all, and says how large they are on average.
void add_listed(SampleTable& table, std::vector<Extent> listed);

}  // namespace ffdl::data
