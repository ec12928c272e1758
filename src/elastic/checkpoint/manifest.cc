#include "elastic/checkpoint/manifest.h"

#include <charconv>
#include <cmath>

#include "base/errors.h"
#include "base/limits.h"
#include "elastic/state/file_system.h"
#include "elastic/state/hash.h"
#include "wire/json_record.h"

namespace ffdl::elastic {
namespace {

using wire::Json;
using wire::RecordReader;

constexpr std::string_view kManifestFormat = "ffdl-checkpoint-1";
constexpr size_t kHashDigits = 16;

// Parses all of `text` as a number of `digits` digits; 0: of any number of digits.
std::optional<uint64_t> whole_number(std::string_view text, size_t digits, int base) {
  uint64_t value = 0;
  if (text.empty() || (digits != 0 && text.size() != digits)) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Cuts off the part after the last '.' and returns it.
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

// Reads a hash, which is 16 digits.
uint64_t hash_in(RecordReader& fields, const char* name) {
  const auto hash = whole_number(fields.text(name), kHashDigits, 16);
  if (!hash) fields.fail(name);
  return hash.value_or(0);
}

std::string hash_digits(uint64_t hash) { return fmt::format("{:016x}", hash); }

TensorFacts tensor_in(RecordReader& fields) {
  TensorFacts tensor;
  tensor.name = fields.text("name");
  tensor.count = fields.number("count", base::kElementsMax);
  const std::string dtype = fields.text("dtype");
  for (uint32_t i = 0; element_bytes(static_cast<DType>(i)) != 0; ++i) {
    tensor.dtype = static_cast<DType>(i);
    if (to_string(tensor.dtype) == dtype) return tensor;
  }
  fields.fail("dtype");
  return tensor;
}

ShardFacts shard_in(RecordReader& fields) {
  ShardFacts shard;
  shard.name = fields.text("file");
  shard.bytes = fields.number("bytes");
  shard.hash = hash_in(fields, "hash");
  return shard;
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
  Json json = {
      {"format", kManifestFormat},         {"job", manifest.label.job},
      {"lineage", manifest.label.lineage}, {"generation", manifest.label.generation},
      {"step", manifest.label.step},       {"history", hash_digits(manifest.label.history)}};
  // JSON has no other numbers.
  if (manifest.metric && std::isfinite(*manifest.metric)) json["metric"] = *manifest.metric;
  json["tensors"] = Json::array();
  for (const TensorFacts& tensor : manifest.tensors) {
    json["tensors"].push_back(
        {{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"count", tensor.count}});
  }
  json["shards"] = Json::array();
  for (const ShardFacts& shard : manifest.shards) {
    json["shards"].push_back(
        {{"file", shard.name}, {"bytes", shard.bytes}, {"hash", hash_digits(shard.hash)}});
  }
  return wire::dump(json, 2) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  const Json json = wire::parse_json(text);
  RecordReader fields(json);
  Manifest manifest;
  if (fields.text("format") != kManifestFormat) fields.fail("format");
  CheckpointLabel& label = manifest.label;
  label.job = fields.text("job");
  label.lineage = fields.number("lineage");
  label.generation = fields.number("generation");
  label.step = fields.number("step");
  label.history = hash_in(fields, "history");
  if (fields.has("metric")) manifest.metric = fields.real("metric");
  fields.list("tensors", SIZE_MAX,
              [&](RecordReader& tensor) { manifest.tensors.push_back(tensor_in(tensor)); });
  fields.list("shards", base::kRanksMax,
              [&](RecordReader& shard) { manifest.shards.push_back(shard_in(shard)); });
  if (manifest.shards.empty()) fields.fail("shards");
  const auto ranks = static_cast<int>(manifest.shards.size());
  for (int rank = 0; rank < ranks; ++rank) {
    if (manifest.shards[static_cast<size_t>(rank)].name != shard_name(rank, ranks)) {
      fields.fail("shards");
    }
  }
  if (!fields.failed()) return manifest;
  return base::make_error(StatusCode::kCorrupt, "'{}' is missing or wrong", fields.why());
}

uint64_t hash_of_manifest(std::string_view text) {
  Hash hash;
  hash.add(text.data(), text.size());
  return hash.digest();
}

}  // namespace ffdl::elastic
