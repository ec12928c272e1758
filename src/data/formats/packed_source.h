#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "data/formats/digest.h"
#include "data/formats/file_source.h"
#include "data/formats/packing.h"
#include "data/formats/sample_check.h"
#include "data/formats/unpacked_files.h"
#include "ffdl/data/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Parameters of a compressed file, besides its format's `find`.
struct PackedFile {
  Packing packing = Packing::kNone;
  uint64_t limit = 0;                  // limit of its unpacked bytes
  std::vector<Digest> packed{};        // digests of the file, from an index
  std::vector<Digest> unpacked{};      // digests of the unpacked bytes
  std::optional<uint64_t> expected{};  // unpacked bytes; nothing: there is no index
};

// The samples of one compressed file. The whole file is unpacked when a sample is read. It stays in
// `files` while there is room.
class PackedSource final : public DataSource {
 public:
  // The sources of a data set share `files`; `number` identifies this one.
  PackedSource(std::unique_ptr<InputFile> file, PackedFile packed, FindSamples find,
               bool skip_corrupt, std::shared_ptr<UnpackedFiles> files, size_t number);

  // Unpacks the file to count its samples. Without an index it is called before any other method.
  Status count_samples();
  // Sets the numbers from an index.
  void set_samples(uint64_t samples, uint64_t bytes_of_one);

  uint64_t samples() const override { return samples_; }
  SampleFormat format() const override { return format_; }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override;
  SkippedData skipped() const override;

 private:
  Result<UnpackedFile> load() const;
  Result<UnpackedFiles::FilePtr> get() const;
  Status copy(const UnpackedFile& file, std::span<const uint64_t> indices,
              SampleBatch& batch) const;

  const std::unique_ptr<InputFile> file_;
  const PackedFile packed_;
  const FindSamples find_;
  const std::shared_ptr<UnpackedFiles> files_;
  const size_t number_;
  const SampleCheck checked_;
  uint64_t samples_ = 0;
  SampleFormat format_{};
  SkippedData already_{};  // skipped when it was opened
  mutable base::Mutex mutex_;
  mutable std::optional<Status> broken_ FFDL_GUARDED_BY(mutex_);  // with kSkip: no samples
};

// Opens files as open_files() does, and unpacks those that look compressed by their first bytes.
// `is_plain` recognizes first bytes of the plain format; empty: they never look compressed.
// `find` is called whenever a file is unpacked, so it owns its data.
using IsPlain = std::function<bool(std::span<const std::byte> begin)>;
Result<std::unique_ptr<DataSource>> open_maybe_packed(const std::vector<std::string>& paths,
                                                      const FileOptions& options,
                                                      const FindSamples& find,
                                                      const IsPlain& is_plain = {});

}  // namespace ffdl::data
