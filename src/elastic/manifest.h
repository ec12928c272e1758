#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "elastic/shard_file.h"
#include "elastic/shares.h"
#include "ffdl/status.h"

namespace ffdl::elastic {

// Which state a checkpoint holds: members with equal labels have equal states, and another run of
// the job has another history.
struct CheckpointLabel {
  std::string job;
  uint64_t lineage = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
  uint64_t history = 0;

  bool operator==(const CheckpointLabel&) const = default;
  // In one lineage of one job: which state came first.
  std::tuple<uint64_t, uint64_t, uint64_t> order() const { return {lineage, generation, step}; }
};

// The folder of a checkpoint, and back: "JOB.000000000120.l1.g3.89abcdef01234567". Nothing: no
// checkpoint has that name.
std::string folder_name(const CheckpointLabel& label);
std::optional<CheckpointLabel> parse_folder_name(std::string_view name);

// The files in it. All names that a checkpoint can have are known, so that nothing else is removed.
std::string shard_name(int rank, int ranks);                   // "shard-00000-of-00002.safetensors"
std::string manifest_name(uint64_t hash);                      // "manifest-89abcdef01234567.json"
std::string published_name(uint64_t sequence, uint64_t hash);  // "published-000000000007-HASH"
bool is_checkpoint_file(std::string_view name);                // one of them, unfinished ones too
// The sequence and the hash of the manifest.
std::optional<std::pair<uint64_t, uint64_t>> parse_published_name(std::string_view name);

// What all shards of a checkpoint are, in JSON. Its own hash is part of its name, and of the record
// of the world: from there on every byte of a checkpoint can be checked.
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
