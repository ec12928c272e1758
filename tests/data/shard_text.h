#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/formats/digest.h"
#include "data/source_text.h"

// Writes shards of MDS and LitData, and their indices, as their own packages do.
namespace ffdl::testing {

using Fields = std::vector<std::string>;

// Returns a sample whose columns all have sizes of their own.
inline std::string shard_sample(const Fields& fields) {
  std::string sizes;
  std::string bytes;
  for (const std::string& field : fields) {
    sizes += bytes_of(static_cast<uint32_t>(field.size()));
    bytes += field;
  }
  return sizes + bytes;
}

// Writes the number of samples, their offsets, the format's own data, and the samples.
inline std::string shard(const std::vector<std::string>& samples, std::string_view between = "") {
  const auto count = static_cast<uint32_t>(samples.size());
  auto at = static_cast<uint32_t>(4 + 4 * (count + 1) + between.size());
  std::string text = bytes_of(count) + bytes_of(at);
  std::string all;
  for (const std::string& sample : samples) {
    all += sample;
    text += bytes_of(static_cast<uint32_t>(at + all.size()));
  }
  return text + std::string(between) + all;
}

inline nlohmann::json mds_file(const std::string& name, const std::string& bytes,
                               const std::vector<std::string>& algorithms) {
  nlohmann::json hashes = nlohmann::json::object();
  for (const std::string& algorithm : algorithms) {
    hashes[algorithm] = data::digest_of(algorithm, std::as_bytes(std::span(bytes)));
  }
  return {{"basename", name}, {"bytes", bytes.size()}, {"hashes", hashes}};
}

inline nlohmann::json mds_shard(uint64_t samples, nlohmann::json raw) {
  return {{"version", 2},
          {"format", "mds"},
          {"compression", nullptr},
          {"hashes", {"sha1"}},
          {"size_limit", 1 << 26},
          {"column_names", {"label", "text"}},
          {"column_encodings", {"int", "str"}},
          {"column_sizes", {8, nullptr}},
          {"raw_data", std::move(raw)},
          {"zip_data", nullptr},
          {"samples", samples}};
}

// Returns a sample of an int64 and a text.
inline std::string mds_sample(int64_t label, std::string_view text) {
  return bytes_of(static_cast<uint32_t>(text.size())) + bytes_of(label) + std::string(text);
}

inline std::string mds_index(std::vector<nlohmann::json> shards) {
  return nlohmann::json{{"version", 2}, {"shards", std::move(shards)}}.dump();
}

inline nlohmann::json litdata_config() {
  return {{"compression", nullptr},
          {"chunk_size", nullptr},
          {"chunk_bytes", 64},
          {"data_format", {"int", "bytes"}},
          {"data_spec", R"([1, {"type": "builtins.dict", "context": "[\"label\", \"image\"]"}])"},
          {"encryption", nullptr},
          {"item_loader", "PyTreeLoader"}};
}

inline nlohmann::json litdata_chunk(const std::string& name, uint64_t items, uint64_t bytes) {
  return {{"filename", name}, {"chunk_size", items}, {"chunk_bytes", bytes}, {"dim", nullptr}};
}

inline std::string litdata_index(const nlohmann::json& config, std::vector<nlohmann::json> chunks) {
  return nlohmann::json{{"chunks", std::move(chunks)}, {"config", config}}.dump();
}

}  // namespace ffdl::testing
