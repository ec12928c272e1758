#include "data/formats/file_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {

// The extent that covers all requested samples, and their total size.
struct FileSource::Hull {
  uint64_t begin = ~uint64_t{0};
  uint64_t end = 0;
  uint64_t bytes = 0;
  bool has_large = false;   // the average sample is large
  bool is_run = false;      // the samples are contiguous, in the requested order
  bool is_touched = false;  // before use: tiny samples in another order than in the file

  Extent extent() const { return {begin, end - begin}; }
};

FileSource::Hull FileSource::hull_of(std::span<const uint64_t> indices, uint64_t low,
                                     uint64_t high) const {
  if (table_.format.is_fixed) {
    return {table_.extent(low).offset, table_.extent(high).offset + table_.format.bytes,
            indices.size() * table_.format.bytes};
  }
  Hull hull;
  for (const uint64_t sample : indices) {
    const Extent extent = table_.extent(sample);
    hull.begin = std::min(hull.begin, extent.offset);
    hull.end = std::max(hull.end, extent.end());
    hull.bytes += extent.bytes;
  }
  return hull;
}

Status FileSource::read(std::span<const uint64_t> indices, SampleBatch& batch) const {
  if (indices.empty()) return {};
  uint64_t low = indices[0];
  uint64_t high = indices[0];
  uint64_t next = indices[0];
  bool in_order = true;
  bool counts = true;  // consecutive, such as 7, 8, 9
  for (const uint64_t sample : indices) {
    low = std::min(low, sample);
    high = std::max(high, sample);
    in_order = in_order && next <= sample + 1;
    counts = counts && next == sample;
    next = sample + 1;
  }
  if (high >= samples()) {
    return base::invalid_argument("read sample {} of '{}': it has {}; ask for one of them", high,
                                  file_->path(), samples());
  }
  Hull hull = hull_of(indices, low, high);
  hull.is_run = counts && hull.end - hull.begin == hull.bytes;
  hull.has_large = hull.bytes >= indices.size() * base::kReadInPlaceBytes;
  hull.is_touched = !in_order && hull.bytes <= indices.size() * base::kTouchedBytes;
  if (is_mapped_) return read_mapped(indices, hull, batch);
  if (hull.has_large) return read_in_place(indices, hull, batch);
  const std::vector<Extent> stretches = stretches_of(indices, hull);
  if (stretches.empty()) return read_in_place(indices, hull, batch);
  return read_stretches(indices, hull, stretches, batch);
}

std::vector<Extent> FileSource::extents_of(std::span<const uint64_t> indices) const {
  std::vector<Extent> extents;
  extents.reserve(indices.size());
  for (const uint64_t sample : indices) extents.push_back(table_.extent(sample));
  return extents;
}

// Returns extents that hold the samples and little else, or none if there are no such extents.
std::vector<Extent> FileSource::stretches_of(std::span<const uint64_t> indices,
                                             const Hull& hull) const {
  std::vector<Extent> stretches = {hull.extent()};
  if (!are_dense(stretches, hull.bytes)) stretches = few_stretches(extents_of(indices));
  if (!are_dense(stretches, hull.bytes)) stretches.clear();
  return stretches;
}

Status FileSource::read_mapped(std::span<const uint64_t> indices, const Hull& hull,
                               SampleBatch& batch) const {
  FFDL_RETURN_IF_ERROR(file_->check_size());
  const std::vector<Extent> stretches = stretches_of(indices, hull);
  for (const Extent& stretch : stretches) {
    file_->populate(stretch.offset, stretch.bytes);
    if (hull.is_touched) batch.add_stretch(file_->mapped(stretch.offset, stretch.bytes));
  }
  if (stretches.empty()) {  // each place once, even with several samples in it
    for (const Extent& place : merged(extents_of(indices), InputFile::kPopulatedBytes)) {
      file_->populate(place.offset, place.bytes);
    }
  }
  return add_all(
      indices, [&](const Extent& extent) { return file_->mapped(extent.offset, extent.bytes); },
      batch);
}

// Reads each stretch in one call, including the gaps between its samples.
Status FileSource::read_stretches(std::span<const uint64_t> indices, const Hull& hull,
                                  std::span<const Extent> stretches, SampleBatch& batch) const {
  std::vector<std::span<const std::byte>> read;
  for (const Extent& stretch : stretches) {
    const auto size = static_cast<size_t>(stretch.bytes);
    const auto buffer = hull.is_run ? batch.place(size) : batch.allocate(size);
    FFDL_RETURN_IF_ERROR(file_->read(stretch.offset, buffer));
    if (hull.is_touched) batch.add_stretch(buffer);
    read.emplace_back(buffer);
  }
  size_t at = 0;  // stretch of the previous sample
  return add_all(
      indices,
      [&](const Extent& extent) {
        if (extent.offset < stretches[at].offset) at = 0;
        while (extent.end() > stretches[at].end()) ++at;
        return read[at].subspan(static_cast<size_t>(extent.offset - stretches[at].offset),
                                static_cast<size_t>(extent.bytes));
      },
      batch);
}

// Reads each sample to its own place, in the order of `indices`. The reads go from the front of the
// file to its end. Adjacent or nearly adjacent samples are read in one call.
Status FileSource::read_in_place(std::span<const uint64_t> indices, const Hull& hull,
                                 SampleBatch& batch) const {
  struct Part {
    Extent extent{};
    std::byte* to = nullptr;
  };
  std::vector<Part> parts(indices.size());
  std::byte* const buffer = batch.place(static_cast<size_t>(hull.bytes)).data();
  std::byte* end = buffer;
  for (size_t i = 0; i < indices.size(); ++i) {
    parts[i] = {table_.extent(indices[i]), end};
    end += parts[i].extent.bytes;
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.extent.offset < b.extent.offset; });
  std::array<std::byte, base::kReadThroughBytes> between;  // gaps, read and not used
  std::vector<iovec> run;
  uint64_t run_begin = 0;
  uint64_t run_end = 0;
  for (const Part& part : parts) {
    if (part.extent.bytes == 0) continue;
    // Overlapping samples begin a new call too.
    const bool goes_on = !run.empty() && part.extent.offset >= run_end &&
                         part.extent.offset - run_end <= between.size();
    if (!goes_on) {
      FFDL_RETURN_IF_ERROR(file_->read_parts(run_begin, run));
      run.clear();
      run_begin = part.extent.offset;
    } else if (part.extent.offset > run_end) {
      run.push_back({between.data(), static_cast<size_t>(part.extent.offset - run_end)});
    }
    run.push_back({part.to, static_cast<size_t>(part.extent.bytes)});
    run_end = part.extent.end();
  }
  FFDL_RETURN_IF_ERROR(file_->read_parts(run_begin, run));
  const std::byte* next = buffer;
  return add_all(
      indices,
      [&](const Extent& extent) {
        const std::span<const std::byte> bytes(next, static_cast<size_t>(extent.bytes));
        next += bytes.size();
        return bytes;
      },
      batch);
}

template <class Bytes>
Status FileSource::add_all(std::span<const uint64_t> indices, Bytes bytes,
                           SampleBatch& batch) const {
  if (table_.check == nullptr) {
    batch.add_each(indices.size(), [&](size_t i) { return bytes(table_.extent(indices[i])); });
    return {};
  }
  for (const uint64_t sample : indices) {
    FFDL_RETURN_IF_ERROR(table_.add(sample, bytes(table_.extent(sample)), checked_, batch));
  }
  return {};
}

Status SampleTable::add(uint64_t sample, std::span<const std::byte> stored,
                        const SampleCheck& checked, SampleBatch& batch) const {
  const std::string_view problem = check == nullptr ? "" : check(stored);
  if (!problem.empty()) return checked.refuse(sample, extent(sample).offset, problem, batch);
  batch.add(stored.first(stored.size() - static_cast<size_t>(trailer_bytes)));
  return {};
}

Result<std::unique_ptr<DataSource>> open_files(const std::vector<std::string>& paths,
                                               const FileOptions& options,
                                               const FindSamples& find) {
  if (paths.empty()) {
    return base::invalid_argument("open a data set: no file is named; name at least one");
  }
  std::vector<std::unique_ptr<DataSource>> sources;
  for (const std::string& path : paths) {
    FFDL_ASSIGN_OR_RETURN(auto file, InputFile::open(path));
    FFDL_ASSIGN_OR_RETURN(auto source, open_file(std::move(file), options, find));
    sources.push_back(std::move(source));
  }
  return join_sources(std::move(sources));
}

Result<std::unique_ptr<FileSource>> open_file(std::unique_ptr<InputFile> file,
                                              const FileOptions& options, const FindSamples& find) {
  FileScanner scanner(*file);
  FFDL_ASSIGN_OR_RETURN(SampleTable table, find(scanner, options.skip_corrupt));
  if (options.mapped) FFDL_RETURN_IF_ERROR(file->map());
  return std::make_unique<FileSource>(std::move(file), std::move(table), options.skip_corrupt,
                                      options.mapped);
}

Status give_up_rest(const FileScanner& file, uint64_t offset, std::string_view what,
                    bool skip_corrupt, SampleTable& table) {
  Status why = base::make_error(StatusCode::kCorrupt,
                                "open data file '{}': {} at byte {} of {}{}; replace the file, or "
                                "leave out what follows with "
                                "FileOptions::skip_corrupt",
                                file.path(), what, offset, file.size(),
                                file.is_unpacked() ? " unpacked" : "");
  if (!skip_corrupt) return why;
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
