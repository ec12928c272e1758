#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "data/digest.h"
#include "data/file_source.h"
#include "data/packing.h"
#include "data/sample_check.h"
#include "data/unpacked_files.h"
#include "ffdl/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// How a compressed file becomes samples, beside what its format's `find` says.
struct PackedFile {
  Packing packing = Packing::kNone;
  uint64_t limit = 0;                  // bytes that it may hold
  std::vector<Digest> packed{};        // that an index says of the file
  std::vector<Digest> unpacked{};      // and of what it holds
  std::optional<uint64_t> expected{};  // bytes that it holds; nothing: there is no index
};

// The samples of one compressed file. It is unpacked as a whole when one of them is asked for, and
// stays so in `files` as long as there is room.
class PackedSource final : public DataSource {
 public:
  // `files` is shared by the sources of a data set; `number` is this one's among them.
  PackedSource(std::unique_ptr<InputFile> file, PackedFile packed, FindSamples find,
               OnCorrupt on_corrupt, std::shared_ptr<UnpackedFiles> files, size_t number);

  // Before any other method. Who has no index unpacks the file, to learn how many there are.
  Status count_samples();
  // What an index says.
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
  SkippedData already_{};  // when it was opened
  mutable base::Mutex mutex_;
  mutable std::optional<Status> broken_ FFDL_GUARDED_BY(mutex_);  // with kSkip: no sample is given
};

// As open_files(); files that are compressed, by their first bytes, are unpacked. `is_plain` says
// of first bytes that they are the format's own after all; none: they never look so.
// `find` is used again whenever a file is unpacked: it owns what it looks at.
using IsPlain = std::function<bool(std::span<const std::byte> begin)>;
OpenedSource open_maybe_packed(const Paths& paths, const FileOptions& options,
                               const FindSamples& find, const IsPlain& is_plain = {});

}  // namespace ffdl::data
