// Half of a test with Python's safetensors (beside_safetensors.py). Saves a checkpoint for it, or
// reads the file that it saved.
//   beside_safetensors save FOLDER     prints the path of the only shard
//   beside_safetensors check FILE      reads the tensors that the Python side saved
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "elastic/checkpoint/shard_file.h"
#include "ffdl/checkpoint.h"

namespace ffdl {
namespace {

Status save(const std::string& folder) {
  std::vector<float> weights(1000);
  std::vector<int64_t> counters = {1, -2, int64_t{1} << 60};
  std::vector<double> none;
  std::vector<uint16_t> halves = {0x3c00, 0xc000};  // 1 and -2
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i) / 4;
  CheckpointOptions options;
  options.folder = folder;
  options.names = {"layer.weight", "counters", "none", "halves"};
  options.note = [] { return std::string("a note"); };
  const std::vector<Buffer> tensors = {{weights.data(), weights.size()},
                                       {counters.data(), counters.size(), DType::kInt64},
                                       {none.data(), 0, DType::kFloat64},
                                       {halves.data(), halves.size(), DType::kFloat16}};
  FFDL_ASSIGN_OR_RETURN(const Checkpoint saved, save_checkpoint(options, tensors, 12));
  fmt::print("{}/shard-00000-of-00001.safetensors\n", saved.folder);
  return {};
}

Status check(const std::string& path) {
  const std::filesystem::path file(path);
  elastic::FileSystem& files = elastic::system_files();
  const std::string folder = file.parent_path().string();
  FFDL_ASSIGN_OR_RETURN(const auto facts,
                        elastic::look_at_shard(files, folder, file.filename().string()));
  FFDL_ASSIGN_OR_RETURN(const auto shard, elastic::ShardReader::open(files, folder, facts));
  FFDL_ASSIGN_OR_RETURN(const auto opened, files.open(path));
  for (const elastic::TensorEntry& entry : shard.tensors()) {
    std::vector<std::byte> bytes(entry.end - entry.begin);
    FFDL_RETURN_IF_ERROR(
        opened->read(facts.bytes - shard.tensors().back().end + entry.begin, bytes));
    fmt::print("{} {}", entry.name, to_string(entry.dtype));
    for (const uint64_t size : entry.shape) fmt::print(" {}", size);
    fmt::print(" :");
    for (const std::byte byte : bytes) fmt::print(" {:02x}", static_cast<unsigned>(byte));
    fmt::print("\n");
  }
  return {};
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) {
  using namespace ffdl;
  if (argc != 3) return 2;
  const bool saves = std::string_view(argv[1]) == "save";
  const Status status = saves ? save(argv[2]) : check(argv[2]);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
