#include "data/formats/packed_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "data/formats/unpack.h"

namespace ffdl::data {

PackedSource::PackedSource(std::unique_ptr<InputFile> file, PackedFile packed, FindSamples find,
                           bool skip_corrupt, std::shared_ptr<UnpackedFiles> files, size_t number)
    : file_(std::move(file)),
      packed_(std::move(packed)),
      find_(std::move(find)),
      files_(std::move(files)),
      number_(number),
      checked_(file_->path(), skip_corrupt, {}) {}

Status PackedSource::count_samples() {
  FFDL_ASSIGN_OR_RETURN(const auto file, files_->get(number_, [&] { return load(); }));
  samples_ = file->table.samples();
  format_ = file->table.format;
  already_ = file->table.skipped;
  return {};
}

void PackedSource::set_samples(uint64_t samples, uint64_t bytes_of_one) {
  samples_ = samples;
  format_.bytes = bytes_of_one;
}

Status PackedSource::read(std::span<const uint64_t> indices, SampleBatch& batch) const {
  if (indices.empty()) return {};
  const uint64_t last = *std::max_element(indices.begin(), indices.end());
  if (last >= samples_) {
    return base::invalid_argument("read sample {} of '{}': it has {}; ask for one of them", last,
                                  file_->path(), samples_);
  }
  const auto file = get();
  if (file.ok()) return copy(**file, indices, batch);
  if (file.status().code() != StatusCode::kCorrupt || !checked_.skips_corrupt()) {
    return file.status();
  }
  checked_.skip(indices.size(), file.status(), batch);
  return {};
}

Result<UnpackedFiles::FilePtr> PackedSource::get() const {
  {
    const base::MutexLock lock(mutex_);
    if (broken_) return *broken_;
  }
  auto file = files_->get(number_, [&] { return load(); });
  if (file.ok() && (*file)->table.samples() != samples_) {
    file = base::make_error(StatusCode::kCorrupt,
                            "read data file '{}': it holds {} samples and had {} when it was "
                            "opened; leave the files of a data set alone while they are in use",
                            file_->path(), (*file)->table.samples(), samples_);
  }
  if (!file.ok() && file.status().code() == StatusCode::kCorrupt && checked_.skips_corrupt()) {
    const base::MutexLock lock(mutex_);
    broken_ = file.status();
  }
  return file;
}

// Unpacks and checks the file and finds its samples. With an index, the file must match it. Without
// one, kSkip accepts the beginning of a file that is corrupt further on.
Result<UnpackedFile> PackedSource::load() const {
  FFDL_RETURN_IF_ERROR(check_digests(*file_, packed_.packed));
  FFDL_ASSIGN_OR_RETURN(Unpacked unpacked, unpack(*file_, packed_.packing,
                                                  {packed_.limit, packed_.expected.value_or(0)}));
  unpacked.trim();
  if (!unpacked.problem.ok() && (packed_.expected || !checked_.skips_corrupt())) {
    return std::move(unpacked.problem);
  }
  FFDL_RETURN_IF_ERROR(check_digests(file_->path(), unpacked.bytes, packed_.unpacked));
  FileScanner scanner(*file_, unpacked.bytes, !unpacked.problem.ok());
  FFDL_ASSIGN_OR_RETURN(SampleTable table, find_(scanner, checked_.skips_corrupt()));
  if (!unpacked.problem.ok()) {
    table.skipped.bytes += unpacked.unused;
    table.skipped.first = unpacked.problem.message();
  }
  return UnpackedFile{std::move(unpacked.bytes), std::move(table)};
}

Status PackedSource::copy(const UnpackedFile& file, std::span<const uint64_t> indices,
                          SampleBatch& batch) const {
  uint64_t bytes = 0;
  for (const uint64_t sample : indices) bytes += file.table.extent(sample).bytes;
  std::span<std::byte> rest = batch.place(static_cast<size_t>(bytes));
  for (const uint64_t sample : indices) {
    const Extent extent = file.table.extent(sample);
    const auto stored = rest.first(static_cast<size_t>(extent.bytes));
    if (!stored.empty()) {
      std::memcpy(stored.data(), file.bytes.data() + extent.offset, stored.size());
    }
    rest = rest.subspan(stored.size());
    FFDL_RETURN_IF_ERROR(file.table.add(sample, stored, checked_, batch));
  }
  return {};
}

SkippedData PackedSource::skipped() const {
  SkippedData skipped = checked_.skipped();
  skipped.bytes += already_.bytes;
  if (!already_.first.empty()) skipped.first = already_.first;
  return skipped;
}

Result<std::unique_ptr<DataSource>> open_maybe_packed(const std::vector<std::string>& paths,
                                                      const FileOptions& options,
                                                      const FindSamples& find,
                                                      const IsPlain& is_plain) {
  if (paths.empty()) {
    return base::invalid_argument("open a data set: no file is named; name at least one");
  }
  const auto files = std::make_shared<UnpackedFiles>(options.unpacked_bytes);
  std::vector<std::unique_ptr<DataSource>> sources;
  for (const std::string& path : paths) {
    FFDL_ASSIGN_OR_RETURN(auto file, InputFile::open(path));
    FileScanner scanner(*file);
    FFDL_ASSIGN_OR_RETURN(const auto begin, scanner.at(0, kFirstBytes));
    const Packing packing = is_plain && is_plain(begin) ? Packing::kNone : packing_of(begin);
    if (packing == Packing::kNone) {
      FFDL_ASSIGN_OR_RETURN(auto source, open_file(std::move(file), options, find));
      sources.push_back(std::move(source));
      continue;
    }
    auto source = std::make_unique<PackedSource>(
        std::move(file), PackedFile{.packing = packing, .limit = options.unpacked_bytes}, find,
        options.skip_corrupt, files, sources.size());
    FFDL_RETURN_IF_ERROR(source->count_samples());
    sources.push_back(std::move(source));
  }
  return join_sources(std::move(sources));
}

}  // namespace ffdl::data
