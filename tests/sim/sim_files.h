#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "elastic/state/file_system.h"
#include "sim/mutants.h"
#include "sim/sim_runtime.h"
#include "support/memory_files.h"

namespace ffdl::sim {

// The faults of a disk.
struct DiskFaults {
  Duration delay_max{};  // longest delay of one operation
  double fail = 0;       // failure rate of an operation, as a network folder that is away
  bool is_full = false;
};

// The shared disk of all processes of a simulation, as one of them sees it. It is slow, full or
// away at times. A process that is killed in the middle of a write leaves a part of it.
class SimFiles final : public elastic::FileSystem {
 public:
  SimFiles(testing::MemoryFiles& disk, SimRuntime& runtime, SimNode& node, const DiskFaults& faults,
           Mutant mutant)
      : disk_(disk), runtime_(runtime), node_(node), faults_(faults), mutant_(mutant) {}

  Result<std::unique_ptr<elastic::OutputFile>> create(const std::string& path) override {
    FFDL_RETURN_IF_ERROR(room(path));
    FFDL_ASSIGN_OR_RETURN(auto file, disk_.create(path));
    return std::unique_ptr<elastic::OutputFile>(
        std::make_unique<Output>(*this, path, std::move(file)));
  }
  Result<std::unique_ptr<elastic::StoredFile>> open(const std::string& path) override {
    FFDL_RETURN_IF_ERROR(wait(path));
    return disk_.open(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    FFDL_RETURN_IF_ERROR(wait(from));
    return disk_.rename(from, to);
  }
  Status sync_folder(const std::string& path) override {
    FFDL_RETURN_IF_ERROR(wait(path));
    return disk_.sync_folder(path);
  }
  Status make_folder(const std::string& path) override {
    FFDL_RETURN_IF_ERROR(room(path));
    return disk_.make_folder(path);
  }
  Status remove_file(const std::string& path) override {
    FFDL_RETURN_IF_ERROR(wait(path));
    return disk_.remove_file(path);
  }
  Status remove_folder(const std::string& path) override {
    FFDL_RETURN_IF_ERROR(wait(path));
    return disk_.remove_folder(path);
  }
  bool exists(const std::string& path) override { return wait(path).ok() && disk_.exists(path); }
  Result<std::vector<std::string>> list(const std::string& path) override {
    FFDL_RETURN_IF_ERROR(wait(path));
    return disk_.list(path);
  }

 private:
  class Output final : public elastic::OutputFile {
   public:
    Output(SimFiles& files, std::string path, std::unique_ptr<elastic::OutputFile> file)
        : files_(files), path_(std::move(path)), file_(std::move(file)) {}
    Status write(uint64_t offset, std::span<const std::byte> bytes) override {
      const size_t half = bytes.size() / 2;
      FFDL_RETURN_IF_ERROR(file_->write(offset, bytes.first(half)));
      FFDL_RETURN_IF_ERROR(files_.room(path_));
      const bool is_lost =
          files_.mutant_ == Mutant::kTornShard && path_.find("shard-") != path_.npos;
      const std::vector<std::byte> zeros(is_lost && offset > 0 ? bytes.size() - half : 0);
      if (!zeros.empty()) return file_->write(offset + half, zeros);
      return file_->write(offset + half, bytes.subspan(half));
    }
    Status sync() override {
      FFDL_RETURN_IF_ERROR(files_.wait(path_));
      return file_->sync();
    }

   private:
    SimFiles& files_;
    const std::string path_;
    const std::unique_ptr<elastic::OutputFile> file_;
  };

  // Waits while others act. A process that was killed in this time gets an error.
  Status wait(const std::string& path) {
    runtime_.sleep(runtime_.up_to(faults_.delay_max));
    if (node_.is_killed()) return base::make_error(StatusCode::kCancelled, "'{}': killed", path);
    if (!runtime_.chance(faults_.fail)) return {};
    return base::make_error(StatusCode::kUnavailable, "'{}': no answer", path);
  }
  Status room(const std::string& path) {
    FFDL_RETURN_IF_ERROR(wait(path));
    if (!faults_.is_full) return {};
    return base::make_error(StatusCode::kExhausted, "'{}': full", path);
  }

  testing::MemoryFiles& disk_;
  SimRuntime& runtime_;
  SimNode& node_;
  const DiskFaults& faults_;
  const Mutant mutant_;
};

}  // namespace ffdl::sim
