#include "elastic/checkpoint/checkpoint_folder.h"

#include <gtest/gtest.h>

#include "ffdl/log.h"
#include "support/memory_files.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

using testing::MemoryFiles;

// A state whose values encode the tensor, the element and the step.
struct State {
  static constexpr size_t kTensors = 40;

  explicit State(uint64_t step) {
    for (size_t i = 0; i < kTensors; ++i) {
      values.emplace_back(i * 37 % 150);
      for (size_t k = 0; k < values[i].size(); ++k) {
        values[i][k] = static_cast<float>(step * 1'000'000 + i * 1000 + k);
      }
    }
  }
  std::vector<Buffer> buffers() {
    std::vector<Buffer> all;
    for (auto& one : values) all.push_back({one.data(), one.size()});
    return all;
  }
  bool operator==(const State&) const = default;

  std::vector<std::vector<float>> values;
};

class Folder : public ::testing::Test {
 protected:
  static CheckpointLabel label(uint64_t step, uint64_t lineage = 1) {
    return {"job", lineage, 3, step, 0x1234 + step};
  }

  // Writes the shards of `ranks` members one after the other, up to the first failure.
  Status write(uint64_t step, int ranks, uint64_t lineage = 1) {
    State state(step);
    const auto buffers = state.buffers();
    FFDL_ASSIGN_OR_RETURN(const auto tensors, describe_tensors(buffers, {}));
    const std::string note = "note of " + std::to_string(step);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<ShardPart> parts;
      for (const Piece& piece : share_of(tensors, rank, ranks)) {
        const auto* data = static_cast<const float*>(buffers[piece.tensor].data);
        parts.push_back({name_of(piece, tensors[piece.tensor]), DType::kFloat32, piece.count,
                         data + piece.begin});
      }
      if (rank == 0)
        parts.push_back({std::string(kNoteTensor), DType::kInt8, note.size(), note.data()});
      FFDL_RETURN_IF_ERROR(folder_.write_shard(label(step, lineage), rank, ranks, parts));
    }
    FFDL_ASSIGN_OR_RETURN(
        const auto manifest,
        folder_.write_manifest({label(step, lineage), 1.0, tensors, {}}, 0, ranks));
    FFDL_RETURN_IF_ERROR(folder_.mark_published(label(step, lineage), manifest.hash));
    return folder_.remove_old({"job", folder_name(label(step, lineage)), keep_last_, 0});
  }

  // Returns the step of the loaded checkpoint, which must be complete.
  Result<uint64_t> load(bool skip_damaged = false) {
    State state(99);
    const auto buffers = state.buffers();
    FFDL_ASSIGN_OR_RETURN(const auto tensors, describe_tensors(buffers, {}));
    FFDL_ASSIGN_OR_RETURN(const auto published, folder_.list_published());
    FFDL_ASSIGN_OR_RETURN(const auto loaded,
                          folder_.load_first(published, skip_damaged, tensors, memory_, buffers));
    if (!loaded) return uint64_t{0};
    EXPECT_TRUE(state == State(loaded->step)) << "another state than that of step " << loaded->step;
    EXPECT_EQ(loaded->note, "note of " + std::to_string(loaded->step));
    return loaded->step;
  }

  std::string path_of(uint64_t step, const std::string& file) const {
    return "/f/" + folder_name(label(step)) + "/" + file;
  }

  MemoryFiles files_;
  HostMemory memory_;
  CheckpointFolder folder_{files_, "/f"};
  int keep_last_ = 2;
};

TEST_F(Folder, AnyNumberOfMembersWritesTheSameState) {
  EXPECT_EQ(load().value(), 0U) << "there is none";
  for (int ranks = 1; ranks <= 9; ++ranks) {
    ASSERT_OK(write(static_cast<uint64_t>(ranks), ranks));
    EXPECT_EQ(load().value(), static_cast<uint64_t>(ranks));
  }
}

TEST_F(Folder, TheLastPublishedIsTheNewest) {
  ASSERT_OK(write(50, 2));
  ASSERT_OK(write(20, 2, 2));  // the job began again
  EXPECT_EQ(load().value(), 20U);
}

TEST_F(Folder, WithoutAShardThereIsNoManifest) {
  ASSERT_OK(write(1, 3));
  ASSERT_OK(files_.remove_file(path_of(1, shard_name(1, 3))));
  EXPECT_FAILS(folder_.write_manifest({label(1), {}, {}, {}}, 0, 3), StatusCode::kNotFound,
               "shard-00001-of-00003.safetensors");
}

// The manifest names fewer shards than there are. Each of its shards is complete.
TEST_F(Folder, TooFewShardsAreNoState) {
  ASSERT_OK(write(1, 3));
  const std::vector<WrittenManifest> published = folder_.list_published().value();
  Manifest manifest = parse_manifest(files_.bytes_of("/f/" + published[0].path)).value();
  State state(1);
  const auto buffers = state.buffers();
  const auto load_as = [&] {
    const std::string text = encode(manifest);
    const uint64_t hash = hash_of_manifest(text);
    EXPECT_OK(replace_file(files_, "/f/" + folder_name(label(1)), manifest_name(hash), 0, text));
    return folder_.load({path_in(folder_name(label(1)), manifest_name(hash)), hash},
                        manifest.tensors, memory_, buffers);
  };
  EXPECT_OK(load_as());
  manifest.shards.push_back(manifest.shards[1]);
  EXPECT_FAILS(load_as(), StatusCode::kCorrupt, "'shards' is missing or wrong");
  manifest.shards.resize(2);
  EXPECT_FAILS(load_as(), StatusCode::kCorrupt, "'shards' is missing or wrong");
  for (int rank = 0; rank < 2; ++rank) {  // under the names of a checkpoint of two shards
    ShardFacts& shard = manifest.shards[static_cast<size_t>(rank)];
    ASSERT_OK(files_.rename(path_of(1, shard.name), path_of(1, shard_name(rank, 2))));
    shard.name = shard_name(rank, 2);
  }
  EXPECT_FAILS(load_as(), StatusCode::kCorrupt,
               "its 2 shards do not contain each element exactly once");
}

// The bytes of a manifest are right, and its folder has the name of another state.
TEST_F(Folder, AManifestOfAnotherStateIsCorrupt) {
  ASSERT_OK(write(1, 2));
  const WrittenManifest written = folder_.list_published().value().front();
  const std::string text = files_.bytes_of("/f/" + written.path);
  State state(1);
  const auto buffers = state.buffers();
  const auto tensors = describe_tensors(buffers, {}).value();
  std::vector<CheckpointLabel> others(5, label(1));
  others[0].job = "another";
  ++others[1].lineage;
  ++others[2].generation;
  ++others[3].step;
  ++others[4].history;
  for (const CheckpointLabel& other : others) {
    const std::string folder = folder_name(other);
    ASSERT_OK(files_.make_folder("/f/" + folder));
    ASSERT_OK(replace_file(files_, "/f/" + folder, manifest_name(written.hash), 0, text));
    EXPECT_FAILS(folder_.load({path_in(folder, manifest_name(written.hash)), written.hash}, tensors,
                              memory_, buffers),
                 StatusCode::kCorrupt, "it belongs to '" + folder_name(label(1)) + "'");
  }
}

TEST_F(Folder, AnotherModelIsRefused) {
  ASSERT_OK(write(1, 2));
  State state(0);
  state.values[1].resize(10);
  const auto buffers = state.buffers();
  const auto tensors = describe_tensors(buffers, {}).value();
  const auto published = folder_.list_published().value();
  for (const bool skip_damaged : {false, true}) {
    const auto loaded = folder_.load_first(published, skip_damaged, tensors, memory_, buffers);
    EXPECT_FAILS(
        loaded, StatusCode::kInvalidArgument,
        "it has 'state.1' of 37 float32 as tensor 1, but this model has 'state.1' of 10 float32");
    EXPECT_EQ(loaded.status().message().find("restore"), std::string::npos) << "no file is damaged";
  }
}

TEST_F(Folder, DamageIsNamedAndSkippedOnlyWhenTold) {
  ASSERT_OK(write(1, 2));
  ASSERT_OK(write(2, 2));
  const std::string shard = path_of(2, shard_name(1, 2));
  files_.bytes_of(shard).back() ^= 1;
  const auto damaged = load();
  EXPECT_FAILS(damaged, StatusCode::kCorrupt, "read checkpoint file '" + shard + "': byte ");
  EXPECT_FAILS(damaged, StatusCode::kCorrupt, "set skip_damaged");
  set_log_sink([](LogLevel, std::string_view) {});
  EXPECT_EQ(load(true).value(), 1U);
  for (const std::string& path : files_.paths()) {
    if (path.find("manifest") != path.npos) ASSERT_OK(files_.remove_file(path));
  }
  EXPECT_FAILS(load(true), StatusCode::kCorrupt, "no such file");
  set_log_sink(nullptr);
}

TEST_F(Folder, WhatOthersWroteStays) {
  keep_last_ = 1;
  ASSERT_OK(write(1, 2));
  const std::string mine = path_of(1, "mine.txt");
  ASSERT_OK(files_.create(mine));
  ASSERT_OK(files_.make_folder("/f/job.1"));
  ASSERT_OK(files_.create("/f/job.1/manifest-0000000000000001.json"));
  ASSERT_OK(write(2, 2));
  EXPECT_TRUE(files_.exists(mine));
  EXPECT_FALSE(files_.exists(path_of(1, shard_name(0, 2))));
  EXPECT_TRUE(files_.exists("/f/job.1/manifest-0000000000000001.json"));
  ASSERT_OK(write(3, 2));
  EXPECT_FALSE(files_.has_folder("/f/" + folder_name(label(2))));
}

// Stops a write at every change of the file system, by a kill of the process and by one of the
// host. The load afterwards finds the old or the new checkpoint, complete.
TEST_F(Folder, StoppedAnywhereOneOfBothIsWhole) {
  keep_last_ = 1;
  int points = 0;
  std::vector<int> loaded(3);
  for (const int ranks : {1, 3}) {
    files_.clear();
    ASSERT_OK(write(1, ranks));
    files_.work();
    ASSERT_OK(write(2, ranks));
    const uint64_t operations = files_.operations();
    for (uint64_t stop = 1; stop <= operations; ++stop) {
      for (uint64_t seed = 0; seed < 8; ++seed) {
        const auto after = static_cast<MemoryFiles::After>(std::min<uint64_t>(seed, 2));
        files_.clear();
        ASSERT_OK(write(1, ranks));
        files_.fail_from(stop);
        EXPECT_EQ(write(2, ranks).code(), StatusCode::kCancelled);
        files_.work();
        files_.crash(after, seed);
        const auto step = load();
        ASSERT_OK(step);
        ASSERT_GE(*step, 1U) << "none is left";
        ++loaded[*step];
        ++points;
        if (seed > 0) continue;
        // The next checkpoint overwrites the remains.
        ASSERT_OK(write(2, ranks));
        ASSERT_OK(write(3, ranks));
        ASSERT_EQ(load().value(), 3U);
      }
    }
  }
  EXPECT_GE(points, 1000);
  EXPECT_GT(loaded[1], 0);
  EXPECT_GT(loaded[2], 0);
}

// The record may name the checkpoint, even if its authors have not learned so.
TEST_F(Folder, WhatHasAManifestIsNotDiscarded) {
  ASSERT_OK(write(1, 2));
  ASSERT_OK(write(2, 2));
  const std::string marker = [&] {
    for (const std::string& path : files_.paths()) {
      if (path.find(folder_name(label(2)) + "/published") != path.npos) return path;
    }
    return std::string();
  }();
  ASSERT_OK(files_.remove_file(marker));
  ASSERT_OK(folder_.discard_share(label(2), 0, 2));
  ASSERT_OK(folder_.remove_abandoned(label(3)));
  EXPECT_TRUE(folder_.has_shard(label(2), 0, 2));
  EXPECT_TRUE(folder_.has_shard(label(2), 1, 2));
}

// Discards the share at any point of the other member's work. A manifest that is reported as
// written has all its shards.
TEST_F(Folder, AShareIsDiscardedOrInAManifest) {
  int discarded = 0;
  int published = 0;
  for (uint64_t stop = 1; stop < 40; ++stop) {
    files_.clear();
    files_.work();
    files_.call_at(stop, [&] { EXPECT_OK(folder_.discard_share(label(1), 1, 2)); });
    const Status written = write(1, 2);
    files_.call_at(~uint64_t{0}, {});
    ++(folder_.has_shard(label(1), 1, 2) ? published : discarded);
    if (!written.ok()) continue;
    EXPECT_EQ(load().value(), 1U);
  }
  EXPECT_GT(discarded, 0);
  EXPECT_GT(published, 0);
}

// A member that discards a share finds no manifest, and dies after it took the shard's name. The
// manifest is written and published between the two.
TEST_F(Folder, ADeathWhileAShareIsDiscardedLosesNoCheckpoint) {
  ASSERT_OK(write(1, 2));
  for (const std::string& path : files_.paths()) {
    if (path.find("/shard-") == path.npos) ASSERT_OK(files_.remove_file(path));
  }
  files_.work();
  files_.call_at(1, [&] {
    ASSERT_OK(write(1, 2));
    files_.fail_from(1);  // the next change, and not the one that is under way
  });
  EXPECT_EQ(folder_.discard_share(label(1), 1, 2).code(), StatusCode::kCancelled);
  files_.work();
  EXPECT_FALSE(folder_.has_shard(label(1), 1, 2));
  EXPECT_EQ(load().value(), 1U) << "by its other name";
  ASSERT_OK(folder_.discard_share(label(1), 1, 2));
  EXPECT_TRUE(folder_.has_shard(label(1), 1, 2)) << "its name is returned";
  EXPECT_EQ(load().value(), 1U);
}

TEST_F(Folder, AFullDiskLeavesTheOneBefore) {
  ASSERT_OK(write(1, 2));
  for (const StatusCode code : {StatusCode::kExhausted, StatusCode::kUnavailable}) {
    for (const uint64_t from : {1U, 3U, 5U, 20U, 48U}) {
      files_.fail_from(from, code);
      EXPECT_FAILS(write(2, 2), code, "write checkpoint '/f/" + folder_name(label(2)) + "': ");
      files_.work();
      EXPECT_EQ(load().value(), 1U);
    }
  }
}

}  // namespace
}  // namespace ffdl::elastic
