#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "data/formats/hashed_source.h"
#include "data/formats/packed_source.h"
#include "data/formats/shard_index.h"
#include "data/formats/shard_table.h"
#include "ffdl/data/data_source.h"

namespace ffdl {
namespace {

using data::InputFile;
using data::Shard;
using data::ShardIndex;
using ParseIndex = Result<ShardIndex> (*)(std::string_view text);

Result<ShardIndex> read_index(const std::string& folder, ParseIndex parse) {
  FFDL_ASSIGN_OR_RETURN(const auto file, InputFile::open(folder + "/index.json"));
  if (file->size() > base::kShardIndexBytesMax) {
    return base::make_error(StatusCode::kExhausted,
                            "open shards '{}': it has {} bytes, more than {}; make larger shards",
                            file->path(), file->size(), base::kShardIndexBytesMax);
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  FFDL_RETURN_IF_ERROR(file->read(0, std::as_writable_bytes(std::span(text))));
  auto index = parse(text);
  if (!index.ok()) {
    return std::move(index).status().with_context(fmt::format("open shards '{}'", file->path()));
  }
  return index;
}

// Opens the shards of folders, one at a time.
class ShardOpener {
 public:
  explicit ShardOpener(const FileOptions& options)
      : options_(options), files_(std::make_shared<data::UnpackedFiles>(options.unpacked_bytes)) {}

  Status add(const std::string& folder, const Shard& shard) {
    const data::FindSamples find = [bytes = shard.bytes, samples = shard.samples](
                                       data::FileScanner& file, bool) {
      return data::find_shard_samples(file, {bytes, samples});
    };
    const std::string plain = folder + "/" + shard.plain.name;
    std::error_code missing;
    if (shard.packed.name.empty() || std::filesystem::exists(plain, missing)) {
      return add_plain(plain, shard, find);
    }
    return add_packed(folder + "/" + shard.packed.name, shard, find);
  }
  Result<std::unique_ptr<DataSource>> join() && { return join_sources(std::move(sources_)); }

 private:
  Status add_plain(const std::string& path, const Shard& shard, const data::FindSamples& find) {
    FFDL_ASSIGN_OR_RETURN(auto file, InputFile::open(path));
    auto source = data::open_file(std::move(file), options_, find);
    const bool skip_corrupt = options_.skip_corrupt;
    if (source.status().code() == StatusCode::kCorrupt && skip_corrupt) {
      sources_.push_back(
          std::make_unique<data::HashedSource>(path, shard.samples, source.status(), skip_corrupt));
      return {};
    }
    FFDL_RETURN_IF_ERROR(source.status());
    if (!options_.check_hashes || shard.plain.digests.empty()) {
      sources_.push_back(std::move(*source));
    } else {
      sources_.push_back(std::make_unique<data::HashedSource>(std::move(*source),
                                                              shard.plain.digests, skip_corrupt));
    }
    return {};
  }

  Status add_packed(const std::string& path, const Shard& shard, const data::FindSamples& find) {
    FFDL_ASSIGN_OR_RETURN(auto file, InputFile::open(path));
    data::PackedFile packed{
        .packing = shard.packing, .limit = options_.unpacked_bytes, .expected = shard.bytes};
    if (options_.check_hashes) {
      packed.packed = shard.packed.digests;
      packed.unpacked = shard.plain.digests;
    }
    auto source = std::make_unique<data::PackedSource>(
        std::move(file), std::move(packed), find, options_.skip_corrupt, files_, sources_.size());
    source->set_samples(shard.samples, shard.bytes / std::max<uint64_t>(1, shard.samples));
    sources_.push_back(std::move(source));
    return {};
  }

  const FileOptions options_;
  // Shared with the sources that it makes, which outlive it.
  const std::shared_ptr<data::UnpackedFiles> files_;
  std::vector<std::unique_ptr<DataSource>> sources_{};
};

Result<std::unique_ptr<DataSource>> open_folders(const std::vector<std::string>& folders,
                                                 const FileOptions& options, ParseIndex parse) {
  if (folders.empty()) {
    return base::invalid_argument("open shards: no folder is named; name at least one");
  }
  ShardOpener opener(options);
  for (const std::string& folder : folders) {
    FFDL_ASSIGN_OR_RETURN(const ShardIndex index, read_index(folder, parse));
    for (const Shard& shard : index.shards) FFDL_RETURN_IF_ERROR(opener.add(folder, shard));
  }
  return std::move(opener).join();
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_mds(const std::vector<std::string>& folders,
                                             const FileOptions& options) {
  return open_folders(folders, options, data::parse_mds_index);
}

Result<std::unique_ptr<DataSource>> open_litdata(const std::vector<std::string>& folders,
                                                 const FileOptions& options) {
  return open_folders(folders, options, data::parse_litdata_index);
}

Result<std::vector<ShardColumn>> shard_columns(const std::string& folder) {
  FFDL_ASSIGN_OR_RETURN(ShardIndex index, read_index(folder, data::parse_shard_index));
  return std::move(index.columns);
}

Result<std::vector<std::span<const std::byte>>> shard_fields(std::span<const std::byte> sample,
                                                             std::span<const ShardColumn> columns) {
  const auto no_sample = [&](std::string_view what) {
    return base::make_error(StatusCode::kCorrupt,
                            "take a sample of {} bytes with {} columns apart: {}; give a sample "
                            "and the shard_columns() of one folder",
                            sample.size(), columns.size(), what);
  };
  std::vector<uint64_t> sizes;
  std::span<const std::byte> rest = sample;
  for (const ShardColumn& column : columns) {
    sizes.push_back(column.bytes);
    if (column.bytes != 0) continue;
    uint32_t size = 0;
    if (rest.size() < sizeof size) return no_sample("it ends before the sizes of its columns do");
    std::memcpy(&size, rest.data(), sizeof size);
    sizes.back() = size;
    rest = rest.subspan(sizeof size);
  }
  std::vector<std::span<const std::byte>> fields;
  for (const uint64_t size : sizes) {
    if (size > rest.size()) return no_sample("it ends within a column");
    fields.push_back(rest.first(static_cast<size_t>(size)));
    rest = rest.subspan(static_cast<size_t>(size));
  }
  if (!rest.empty()) return no_sample("it has bytes of no column");
  return fields;
}

}  // namespace ffdl
