#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "elastic/checkpoint/shard_file.h"
#include "elastic/checkpoint/state_shares.h"
#include "ffdl/status.h"

namespace ffdl::elastic {

// Identifies the state of a checkpoint. Members with equal labels have equal states. Another run of
// the job has another history.
struct CheckpointLabel {
  std::string job;
  uint64_t lineage = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
  uint64_t history = 0;

  bool operator==(const CheckpointLabel&) const = default;
  // Returns a key that orders the states of one job; in one lineage, by time.
  std::tuple<uint64_t, uint64_t, uint64_t> order() const { return {lineage, generation, step}; }
};

// Converts a label to the name of its folder, and back: "JOB.000000000120.l1.g3.89abcdef01234567".
// Returns nothing if no checkpoint has that name.
std::string folder_name(const CheckpointLabel& label);
std::optional<CheckpointLabel> parse_folder_name(std::string_view name);

// Names of the files in a folder. All names of a checkpoint's files are known, so that nothing else
// is removed.
std::string shard_name(int rank, int ranks);                   // "shard-00000-of-00002.safetensors"
std::string manifest_name(uint64_t hash);                      // "manifest-89abcdef01234567.json"
std::string published_name(uint64_t sequence, uint64_t hash);  // "published-000000000007-HASH"
bool is_checkpoint_file(std::string_view name);                // any of these, also unfinished
// Returns the sequence and the hash of the manifest.
std::optional<std::pair<uint64_t, uint64_t>> parse_published_name(std::string_view name);

// Describes all shards of a checkpoint, in JSON. Its own hash is in its name and in the record of
// the world. With that hash, every byte of a checkpoint can be checked.
struct Manifest {
  CheckpointLabel label;
  std::optional<double> metric;
  std::vector<TensorFacts> tensors;
  std::vector<ShardFacts> shards;  // by rank

  bool operator==(const Manifest&) const = default;
};

std::string encode(const Manifest& manifest);
// Errors: kCorrupt.
Result<Manifest> parse_manifest(std::string_view text);

uint64_t hash_of_manifest(std::string_view text);

}  // namespace ffdl::elastic
