#include "elastic/manifest.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/limits.h"
#include "elastic/file_system.h"
#include "elastic/hash.h"

namespace ffdl::elastic {
namespace {

using ManifestJson = nlohmann::ordered_json;

constexpr std::string_view kManifestFormat = "ffdl-checkpoint-1";
constexpr size_t kHashDigits = 16;

// All of `text` is a number of exactly so many digits, or of any where that is 0.
std::optional<uint64_t> whole_number(std::string_view text, size_t digits, int base) {
  uint64_t value = 0;
  if (text.empty() || (digits != 0 && text.size() != digits)) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Cuts the part behind the last '.' off.
std::string_view take_last(std::string_view& name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return {};
  const std::string_view part = name.substr(dot + 1);
  name = name.substr(0, dot);
  return part;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}
bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

Status not_a_manifest(std::string_view what) {
  return base::make_error(StatusCode::kCorrupt, "'{}' is missing or wrong", what);
}

const ManifestJson* find(const ManifestJson& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nullptr : &*found;
}

bool get(const ManifestJson& object, const char* name, uint64_t& value) {
  const ManifestJson* json = find(object, name);
  if (json == nullptr || !json->is_number_unsigned()) return false;
  value = json->get<uint64_t>();
  return true;
}
bool get(const ManifestJson& object, const char* name, std::string& value) {
  const ManifestJson* json = find(object, name);
  if (json == nullptr || !json->is_string()) return false;
  value = json->get<std::string>();
  return true;
}
bool get_hash(const ManifestJson& object, const char* name, uint64_t& value) {
  std::string text;
  const auto hash = get(object, name, text) ? whole_number(text, kHashDigits, 16) : std::nullopt;
  value = hash.value_or(0);
  return hash.has_value();
}
std::string hash_digits(uint64_t hash) { return fmt::format("{:016x}", hash); }

bool get_tensor(const ManifestJson& json, TensorFacts& tensor) {
  std::string dtype;
  if (!get(json, "name", tensor.name) || !get(json, "count", tensor.count) ||
      !get(json, "dtype", dtype) || tensor.count > base::kElementsMax) {
    return false;
  }
  for (uint32_t i = 0; element_bytes(static_cast<DType>(i)) != 0; ++i) {
    tensor.dtype = static_cast<DType>(i);
    if (to_string(tensor.dtype) == dtype) return true;
  }
  return false;
}

bool get_shard(const ManifestJson& json, ShardFacts& shard) {
  return get(json, "file", shard.name) && get(json, "bytes", shard.bytes) &&
         get_hash(json, "hash", shard.hash) && is_checkpoint_file(shard.name);
}

}  // namespace

std::string folder_name(const CheckpointLabel& label) {
  return fmt::format("{}.{:012}.l{}.g{}.{:016x}", label.job, label.step, label.lineage,
                     label.generation, label.history);
}

std::optional<CheckpointLabel> parse_folder_name(std::string_view name) {
  std::string_view rest = name;
  const auto history = whole_number(take_last(rest), kHashDigits, 16);
  std::string_view generation = take_last(rest);
  std::string_view lineage = take_last(rest);
  const auto step = whole_number(take_last(rest), 0, 10);
  if (!history || !step || !take_prefix(generation, "g") || !take_prefix(lineage, "l")) return {};
  const auto g = whole_number(generation, 0, 10);
  const auto l = whole_number(lineage, 0, 10);
  if (!g || !l || rest.empty()) return {};
  CheckpointLabel label = {std::string(rest), *l, *g, *step, *history};
  if (folder_name(label) != name) return {};
  return label;
}

std::string shard_name(int rank, int ranks) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", rank, ranks);
}
std::string manifest_name(uint64_t hash) { return fmt::format("manifest-{:016x}.json", hash); }
std::string published_name(uint64_t sequence, uint64_t hash) {
  return fmt::format("published-{:012}-{:016x}", sequence, hash);
}

std::optional<std::pair<uint64_t, uint64_t>> parse_published_name(std::string_view name) {
  std::string_view rest = name;
  const size_t dash = rest.rfind('-');
  if (dash == rest.npos) return {};
  const auto hash = whole_number(rest.substr(dash + 1), kHashDigits, 16);
  rest = rest.substr(0, dash);
  if (!take_prefix(rest, "published-")) return {};
  const auto sequence = whole_number(rest, 0, 10);
  if (!hash || !sequence || published_name(*sequence, *hash) != name) return {};
  return std::pair(*sequence, *hash);
}

bool is_checkpoint_file(std::string_view name) {
  if (parse_published_name(name)) return true;
  const bool is_unfinished = take_suffix(name, kUnfinished);
  if (take_prefix(name, "manifest-")) {
    if (is_unfinished && !name.ends_with(".json") && !whole_number(take_last(name), 5, 10)) {
      return false;
    }
    return take_suffix(name, ".json") && whole_number(name, kHashDigits, 16);
  }
  if (!take_prefix(name, "shard-") || !take_suffix(name, ".safetensors")) return false;
  const size_t middle = name.find("-of-");
  return middle != name.npos && whole_number(name.substr(0, middle), 5, 10) &&
         whole_number(name.substr(middle + 4), 5, 10);
}

std::string encode(const Manifest& manifest) {
  ManifestJson json = {
      {"format", kManifestFormat},         {"job", manifest.label.job},
      {"lineage", manifest.label.lineage}, {"generation", manifest.label.generation},
      {"step", manifest.label.step},       {"history", hash_digits(manifest.label.history)}};
  // JSON has no others.
  if (manifest.metric && std::isfinite(*manifest.metric)) json["metric"] = *manifest.metric;
  json["tensors"] = ManifestJson::array();
  for (const TensorFacts& tensor : manifest.tensors) {
    json["tensors"].push_back(
        {{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"count", tensor.count}});
  }
  json["shards"] = ManifestJson::array();
  for (const ShardFacts& shard : manifest.shards) {
    json["shards"].push_back(
        {{"file", shard.name}, {"bytes", shard.bytes}, {"hash", hash_digits(shard.hash)}});
  }
  return json.dump(2, ' ', false, ManifestJson::error_handler_t::replace) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  const ManifestJson json = ManifestJson::parse(text, nullptr, false);
  Manifest manifest;
  std::string format;
  CheckpointLabel& label = manifest.label;
  if (!get(json, "format", format) || format != kManifestFormat) return not_a_manifest("format");
  if (!get(json, "job", label.job)) return not_a_manifest("job");
  if (!get(json, "lineage", label.lineage)) return not_a_manifest("lineage");
  if (!get(json, "generation", label.generation)) return not_a_manifest("generation");
  if (!get(json, "step", label.step)) return not_a_manifest("step");
  if (!get_hash(json, "history", label.history)) return not_a_manifest("history");
  if (const ManifestJson* metric = find(json, "metric")) {
    if (!metric->is_number()) return not_a_manifest("metric");
    manifest.metric = metric->get<double>();
  }
  const ManifestJson* tensors = find(json, "tensors");
  const ManifestJson* shards = find(json, "shards");
  if (tensors == nullptr || !tensors->is_array()) return not_a_manifest("tensors");
  if (shards == nullptr || !shards->is_array() || shards->empty() ||
      shards->size() > base::kRanksMax) {
    return not_a_manifest("shards");
  }
  for (const ManifestJson& one : *tensors) {
    if (!get_tensor(one, manifest.tensors.emplace_back())) return not_a_manifest("tensors");
  }
  for (const ManifestJson& one : *shards) {
    if (!get_shard(one, manifest.shards.emplace_back())) return not_a_manifest("shards");
  }
  return manifest;
}

uint64_t hash_of_manifest(std::string_view text) {
  Hash hash;
  hash.add(text.data(), text.size());
  return hash.digest();
}

}  // namespace ffdl::elastic
