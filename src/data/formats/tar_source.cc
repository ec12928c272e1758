#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "data/formats/file_source.h"
#include "data/formats/packed_source.h"
#include "data/formats/tar_member.h"

namespace ffdl {
namespace {

using data::Extent;
using data::FileScanner;
using data::SampleTable;
using data::TarMember;

// Groups the members of an archive into samples.
class Samples {
 public:
  // Returns false if the sample already has a file of this name.
  bool add(const TarMember& member) {
    const data::TarName path = data::split_tar_path(member.path);
    if (!member.is_file || names_.empty() || path.key != key_) names_.clear();
    if (!member.is_file) return true;
    if (names_.empty()) {
      key_ = path.key;
      extents_.push_back({member.begin, 0});
    } else if (std::find(names_.begin(), names_.end(), path.name) != names_.end()) {
      return false;
    }
    names_.emplace_back(path.name);
    extents_.back().bytes = member.end - extents_.back().offset;
    return true;
  }
  // Drops the last sample if the incomplete `member` belongs to it. Returns the offset from which
  // the archive is left out.
  uint64_t give_up(const TarMember& member) {
    const bool is_of_last =
        member.is_file && !names_.empty() && data::split_tar_path(member.path).key == key_;
    if (!is_of_last) return member.begin;
    const uint64_t begin = extents_.back().offset;
    extents_.pop_back();
    return begin;
  }
  std::vector<Extent> extents() && { return std::move(extents_); }

 private:
  std::string key_{};
  std::vector<std::string> names_{};  // of the last sample; empty: the next file begins another
  std::vector<Extent> extents_{};
};

Result<SampleTable> find_members(FileScanner& file, bool skip_corrupt) {
  SampleTable table;
  Samples samples;
  const auto give_up = [&](uint64_t offset, std::string_view what) {
    return data::give_up_rest(file, offset, what, skip_corrupt, table);
  };
  for (uint64_t at = 0;;) {
    auto read = data::read_tar_member(
        at, [&](uint64_t offset, size_t bytes) { return file.at(offset, bytes); });
    if (!read.ok()) {
      if (read.status().code() != StatusCode::kCorrupt) {
        return std::move(read).status().with_context(fmt::format("open archive '{}'", file.path()));
      }
      FFDL_RETURN_IF_ERROR(give_up(at, read.status().message()));
      break;
    }
    if (!read->has_value()) break;
    const TarMember& member = **read;
    std::string problem;
    if (member.end > file.size()) {
      problem = fmt::format("the file ends within '{}'", member.path);
    } else if (!samples.add(member)) {
      problem = fmt::format("'{}' occurs twice in one sample", member.path);
    }
    if (!problem.empty()) {
      FFDL_RETURN_IF_ERROR(give_up(at, problem));
      table.skipped.bytes += at - samples.give_up(member);
      break;
    }
    at = member.end;
  }
  data::add_listed(table, std::move(samples).extents());
  return table;
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_tar_shards(const std::vector<std::string>& paths,
                                                    const FileOptions& options) {
  return data::open_maybe_packed(paths, options, find_members);
}

Result<std::vector<TarField>> tar_fields(std::span<const std::byte> sample) {
  std::vector<TarField> fields;
  const auto read = [&](uint64_t offset, size_t bytes) -> Result<std::span<const std::byte>> {
    if (offset >= sample.size()) return std::span<const std::byte>();
    const auto rest = sample.subspan(static_cast<size_t>(offset));
    return rest.first(std::min(bytes, rest.size()));
  };
  for (uint64_t at = 0; at < sample.size();) {
    auto member = data::read_tar_member(at, read);
    if (!member.ok() || !member->has_value() || (*member)->end > sample.size()) {
      return base::make_error(StatusCode::kCorrupt,
                              "take a sample of an archive apart: there is no whole member at byte "
                              "{} of {}; give a sample of open_tar_shards()",
                              at, sample.size());
    }
    const data::TarName path = data::split_tar_path((*member)->path);
    fields.push_back({std::string(path.key), std::string(path.name),
                      sample.subspan(static_cast<size_t>((*member)->data),
                                     static_cast<size_t>((*member)->bytes))});
    at = (*member)->end;
  }
  return fields;
}

}  // namespace ffdl
