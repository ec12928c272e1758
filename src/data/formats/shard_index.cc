#include "data/formats/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

using IndexJson = nlohmann::json;

Status bad_index(std::string_view what) {
  return base::make_error(StatusCode::kCorrupt, "{}; copy or write it again", what);
}

// Returns the member with this key, or null.
const IndexJson& member_of(const IndexJson& object, const char* key) {
  static const IndexJson kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNull : *found;
}

bool read_count(const IndexJson& object, const char* key, uint64_t& count) {
  const IndexJson& found = member_of(object, key);
  if (!found.is_number_unsigned()) return false;
  count = found.get<uint64_t>();
  return count <= base::kSampleBytesMax;
}

bool read_text(const IndexJson& object, const char* key, std::string& text) {
  const IndexJson& found = member_of(object, key);
  if (!found.is_string()) return false;
  text = found.get<std::string>();
  return true;
}

// Reports whether the path is a file below the folder.
bool is_below(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != name.npos) return false;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return false;
    at = end + 1;
  }
  return true;
}

Status read_digests(const IndexJson& hashes, std::vector<Digest>& digests) {
  if (!hashes.is_object()) return {};
  for (const auto& [algorithm, hex] : hashes.items()) {
    if (!hex.is_string()) return bad_index(fmt::format("its hash '{}' is not text", algorithm));
    if (!is_digest(algorithm)) {
      return base::make_error(StatusCode::kUnimplemented,
                              "its hash '{}' is not one that ffdl computes; write it with 'sha1' "
                              "or 'xxh64', or without",
                              algorithm);
    }
    digests.push_back({algorithm, hex.get<std::string>()});
  }
  return {};
}

// Reads {"basename": ..., "bytes": ..., "hashes": {...}}.
Status read_file(const IndexJson& file, ShardFile& made, uint64_t& bytes) {
  if (!read_text(file, "basename", made.name) || !is_below(made.name)) {
    return bad_index("one of its files has no name, or a name outside its folder");
  }
  if (!read_count(file, "bytes", bytes)) {
    return bad_index(fmt::format("'{}' has no size", made.name));
  }
  return read_digests(member_of(file, "hashes"), made.digests);
}

Result<Packing> packing_in(const std::string& name) {
  if (const auto packing = packing_named(name)) return *packing;
  return base::make_error(StatusCode::kUnimplemented,
                          "its compression '{}' is not zstd, gz or bz2; unpack its shards", name);
}

Result<std::vector<ShardColumn>> read_columns(const IndexJson& shard) {
  const IndexJson& names = member_of(shard, "column_names");
  const IndexJson& encodings = member_of(shard, "column_encodings");
  const IndexJson& sizes = member_of(shard, "column_sizes");
  if (!names.is_array() || names.size() != encodings.size() || !encodings.is_array() ||
      !sizes.is_array() || names.size() != sizes.size()) {
    return bad_index("it does not name its columns");
  }
  std::vector<ShardColumn> columns;
  for (size_t i = 0; i < names.size(); ++i) {
    ShardColumn column;
    const bool is_sized = sizes[i].is_number_unsigned();
    if (!names[i].is_string() || !encodings[i].is_string() || !(is_sized || sizes[i].is_null())) {
      return bad_index(fmt::format("its column {} has no valid name, encoding or size", i));
    }
    column.name = names[i].get<std::string>();
    column.encoding = encodings[i].get<std::string>();
    if (is_sized) column.bytes = sizes[i].get<uint64_t>();
    columns.push_back(std::move(column));
  }
  return columns;
}

std::string text_of(const std::vector<ShardColumn>& columns) {
  std::string text;
  for (const ShardColumn& column : columns) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", column.name, column.encoding);
  }
  return text;
}

Status have_same_columns(const std::vector<ShardColumn>& first,
                         const std::vector<ShardColumn>& columns, const std::string& name) {
  const auto is_same = [](const ShardColumn& a, const ShardColumn& b) {
    return a.name == b.name && a.encoding == b.encoding && a.bytes == b.bytes;
  };
  if (std::equal(first.begin(), first.end(), columns.begin(), columns.end(), is_same)) return {};
  return base::invalid_argument(
      "the columns of '{}' are ({}) and those of the first shard ({}); give shards with the same "
      "columns",
      name, text_of(columns), text_of(first));
}

Result<Shard> read_mds_shard(const IndexJson& json) {
  std::string format;
  uint64_t version = 0;
  if (!read_text(json, "format", format) || !read_count(json, "version", version)) {
    return bad_index("a shard does not name its format and version");
  }
  if (format != "mds" || version != 2) {
    return base::make_error(StatusCode::kUnimplemented,
                            "a shard is of format '{}', version {}; write it as MDS, version 2",
                            format, version);
  }
  Shard shard;
  FFDL_RETURN_IF_ERROR(read_file(member_of(json, "raw_data"), shard.plain, shard.bytes));
  const IndexJson& packed = member_of(json, "zip_data");
  if (!packed.is_null()) {
    uint64_t bytes = 0;
    std::string compression;
    FFDL_RETURN_IF_ERROR(read_file(packed, shard.packed, bytes));
    if (!read_text(json, "compression", compression)) {
      return bad_index("a shard does not name its compression");
    }
    FFDL_ASSIGN_OR_RETURN(shard.packing, packing_in(compression));
  }
  if (!read_count(json, "samples", shard.samples)) {
    return bad_index(fmt::format("'{}' has no number of samples", shard.plain.name));
  }
  return shard;
}

// Returns the keys of a flat dictionary; for any other structure, the positions.
std::vector<std::string> names_in(const IndexJson& data_spec, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  if (!data_spec.is_string()) return names;
  const IndexJson spec = IndexJson::parse(data_spec.get<std::string>(), nullptr, false);
  if (!spec.is_array() || spec.size() != 2) return names;
  const IndexJson& context = member_of(spec[1], "context");
  if (member_of(spec[1], "type") != "builtins.dict" || !context.is_string()) return names;
  const IndexJson keys = IndexJson::parse(context.get<std::string>(), nullptr, false);
  if (!keys.is_array() || keys.size() != count) return names;
  if (!std::all_of(keys.begin(), keys.end(), [](const auto& key) { return key.is_string(); })) {
    return names;
  }
  return keys.get<std::vector<std::string>>();
}

// Checks that LitData's items are readable. An error names the source that reads the others.
Status is_readable(const IndexJson& config) {
  if (!member_of(config, "encryption").is_null()) {
    return base::make_error(StatusCode::kUnimplemented,
                            "it is encrypted; write it without encryption");
  }
  if (!member_of(config, "compression_level").is_null()) {
    return base::make_error(
        StatusCode::kUnimplemented,
        "it is compressed within its chunks; write it with compression_level 'chunk', or without");
  }
  std::string loader = "PyTreeLoader";
  read_text(config, "item_loader", loader);
  if (loader == "PyTreeLoader" && !config.contains("format")) return {};
  return base::make_error(StatusCode::kUnimplemented,
                          "its items are for '{}' and not for PyTreeLoader; write tokens as "
                          "files for open_tokens(), open MDS with open_mds() and Parquet in Python",
                          loader);
}

std::string without_packing(std::string name, const std::string& compression) {
  const size_t found = name.find("." + compression);
  if (found != name.npos) name.erase(found, compression.size() + 1);
  return name;
}

Result<ShardIndex> read_litdata(const IndexJson& json) {
  const IndexJson& config = member_of(json, "config");
  const IndexJson& encodings = member_of(config, "data_format");
  if (!encodings.is_array()) return bad_index("it does not name its data_format");
  FFDL_RETURN_IF_ERROR(is_readable(config));
  ShardIndex index;
  const auto names = names_in(member_of(config, "data_spec"), encodings.size());
  for (size_t i = 0; i < encodings.size(); ++i) {
    if (!encodings[i].is_string())
      return bad_index(fmt::format("its data_format {} is not text", i));
    index.columns.push_back({names[i], encodings[i].get<std::string>(), 0});
  }
  std::string compression;
  Packing packing = Packing::kNone;
  if (read_text(config, "compression", compression)) {
    FFDL_ASSIGN_OR_RETURN(packing, packing_in(compression));
  }
  for (const IndexJson& chunk : member_of(json, "chunks")) {
    Shard shard;
    std::string name;
    if (!read_text(chunk, "filename", name) || !is_below(name)) {
      return bad_index("one of its files has no name, or a name outside its folder");
    }
    if (!read_count(chunk, "chunk_bytes", shard.bytes) ||
        !read_count(chunk, "chunk_size", shard.samples)) {
      return bad_index(fmt::format("'{}' has no size", name));
    }
    shard.packing = packing;
    if (packing != Packing::kNone) shard.packed.name = name;
    shard.plain.name = packing == Packing::kNone ? name : without_packing(name, compression);
    index.shards.push_back(std::move(shard));
  }
  return index;
}

Result<ShardIndex> read_mds(const IndexJson& json) {
  ShardIndex index;
  for (const IndexJson& each : member_of(json, "shards")) {
    FFDL_ASSIGN_OR_RETURN(Shard shard, read_mds_shard(each));
    FFDL_ASSIGN_OR_RETURN(auto columns, read_columns(each));
    if (index.shards.empty()) index.columns = columns;
    FFDL_RETURN_IF_ERROR(have_same_columns(index.columns, columns, shard.plain.name));
    index.shards.push_back(std::move(shard));
  }
  return index;
}

}  // namespace

Result<ShardIndex> parse_mds_index(std::string_view text) {
  const IndexJson json = IndexJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!member_of(json, "shards").is_array()) return bad_index("it is not an index of MDS");
  return read_mds(json);
}

Result<ShardIndex> parse_litdata_index(std::string_view text) {
  const IndexJson json = IndexJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!member_of(json, "chunks").is_array()) return bad_index("it is not an index of LitData");
  return read_litdata(json);
}

Result<ShardIndex> parse_shard_index(std::string_view text) {
  const IndexJson json = IndexJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (member_of(json, "shards").is_array()) return read_mds(json);
  if (member_of(json, "chunks").is_array()) return read_litdata(json);
  return bad_index("it is not an index of MDS or LitData");
}

}  // namespace ffdl::data
