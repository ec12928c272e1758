#include "data/file_source.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

// The stretch of a file that samples lie in, and how many bytes they have together.
struct Hull {
  uint64_t begin = ~uint64_t{0};
  uint64_t end = 0;
  uint64_t bytes = 0;
};

Hull hull_of(const SampleTable& table, std::span<const uint64_t> indices) {
  Hull hull;
  if (table.format.is_fixed) {
    uint64_t low = indices[0];
    uint64_t high = indices[0];
    for (const uint64_t sample : indices) {
      low = std::min(low, sample);
      high = std::max(high, sample);
    }
    return {table.extent(low).offset, table.extent(high).offset + table.format.bytes,
            indices.size() * table.format.bytes};
  }
  for (const uint64_t sample : indices) {
    const Extent extent = table.extent(sample);
    hull.begin = std::min(hull.begin, extent.offset);
    hull.end = std::max(hull.end, extent.offset + extent.bytes);
    hull.bytes += extent.bytes;
  }
  return hull;
}

bool is_dense(const Hull& hull) {
  return hull.end - hull.begin <= base::kReadGapFactor * hull.bytes + base::kScanLeapBytes;
}

}  // namespace

Status FileSource::read(std::span<const uint64_t> indices, SampleBatch& batch) const {
  if (indices.empty()) return {};
  uint64_t last = 0;
  for (const uint64_t sample : indices) last = std::max(last, sample);
  if (last >= samples()) {
    return base::invalid_argument("read sample {} of '{}': it has {}; ask for one of them", last,
                                  file_->path(), samples());
  }
  return access_ == FileAccess::kMapped ? read_mapped(indices, batch) : read_copied(indices, batch);
}

Status FileSource::read_mapped(std::span<const uint64_t> indices, SampleBatch& batch) const {
  FFDL_RETURN_IF_ERROR(file_->check_size());
  const Hull hull = hull_of(table_, indices);
  const bool dense = is_dense(hull);
  if (dense) file_->populate(hull.begin, hull.end - hull.begin);
  for (const uint64_t sample : indices) {
    const Extent extent = table_.extent(sample);
    if (!dense) file_->populate(extent.offset, extent.bytes);
    FFDL_RETURN_IF_ERROR(add(sample, file_->mapped(extent.offset, extent.bytes), batch));
  }
  return {};
}

Status FileSource::read_copied(std::span<const uint64_t> indices, SampleBatch& batch) const {
  const Hull hull = hull_of(table_, indices);
  if (is_dense(hull)) {
    const auto bytes = batch.allocate(static_cast<size_t>(hull.end - hull.begin));
    FFDL_RETURN_IF_ERROR(file_->read(hull.begin, bytes));
    for (const uint64_t sample : indices) {
      const Extent extent = table_.extent(sample);
      const auto place = static_cast<size_t>(extent.offset - hull.begin);
      FFDL_RETURN_IF_ERROR(
          add(sample, bytes.subspan(place, static_cast<size_t>(extent.bytes)), batch));
    }
    return {};
  }
  auto rest = batch.allocate(static_cast<size_t>(hull.bytes));
  for (const uint64_t sample : indices) {
    const Extent extent = table_.extent(sample);
    const auto bytes = rest.first(static_cast<size_t>(extent.bytes));
    rest = rest.subspan(bytes.size());
    FFDL_RETURN_IF_ERROR(file_->read(extent.offset, bytes));
    FFDL_RETURN_IF_ERROR(add(sample, bytes, batch));
  }
  return {};
}

Status FileSource::add(uint64_t sample, std::span<const std::byte> stored,
                       SampleBatch& batch) const {
  if (table_.check == nullptr) {
    batch.add(stored);
    return {};
  }
  const std::string_view problem = table_.check(stored);
  if (problem.empty()) {
    batch.add(stored.first(stored.size() - static_cast<size_t>(table_.trailer_bytes)));
    return {};
  }
  const Status why = base::make_error(
      StatusCode::kCorrupt,
      "read sample {} of '{}': {} at byte {}; replace the file, or leave such samples out with "
      "OnCorrupt::kSkip",
      sample, file_->path(), problem, table_.extent(sample).offset);
  if (on_corrupt_ == OnCorrupt::kFail) return why;
  batch.skip();
  const base::MutexLock lock(mutex_);
  if (skipped_.first.empty()) skipped_.first = why.message();
  ++skipped_.samples;
  return {};
}

SkippedData FileSource::skipped() const {
  const base::MutexLock lock(mutex_);
  return skipped_;
}

OpenedSource open_files(const Paths& paths, const FileOptions& options, const FindSamples& find) {
  if (paths.empty()) {
    return base::invalid_argument("open a data set: no file is named; name at least one");
  }
  std::vector<std::unique_ptr<DataSource>> sources;
  for (const std::string& path : paths) {
    FFDL_ASSIGN_OR_RETURN(auto file, InputFile::open(path));
    FFDL_ASSIGN_OR_RETURN(SampleTable table, find(*file, options.on_corrupt));
    if (options.access == FileAccess::kMapped) FFDL_RETURN_IF_ERROR(file->map());
    sources.push_back(std::make_unique<FileSource>(std::move(file), std::move(table),
                                                   options.on_corrupt, options.access));
  }
  return join_sources(std::move(sources));
}

Status give_up_rest(const InputFile& file, uint64_t offset, std::string_view what,
                    OnCorrupt on_corrupt, SampleTable& table) {
  Status why = base::make_error(
      StatusCode::kCorrupt,
      "open data file '{}': {} at byte {} of {}; replace the file, or leave out what follows with "
      "OnCorrupt::kSkip",
      file.path(), what, offset, file.size());
  if (on_corrupt == OnCorrupt::kFail) return why;
  table.skipped.first = why.message();
  table.skipped.bytes += file.size() - offset;
  return {};
}

void add_listed(SampleTable& table, std::vector<Extent> listed) {
  uint64_t bytes = 0;
  for (const Extent& extent : listed) bytes += extent.bytes;
  if (!listed.empty()) table.format.bytes = bytes / listed.size();
  table.listed = std::move(listed);
}

}  // namespace ffdl::data
