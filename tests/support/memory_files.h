#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "elastic/state/file_system.h"

namespace ffdl::testing {

// A file system in memory that knows which of its data is on the disk. It can be stopped at any of
// its changes: by an error, or by the death of the process or the host.
// Threads: any.
class MemoryFiles final : public elastic::FileSystem {
 public:
  // The remains of unsynced data after a crash.
  enum class After { kKill, kPowerLoss, kChance };

  // Fails the change with this number and all later ones with `code`. Changes count from 1.
  void fail_from(uint64_t operation, StatusCode code = StatusCode::kCancelled) {
    const std::lock_guard lock(mutex_);
    operations_ = 0;
    fail_from_ = operation;
    code_ = code;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    folders_.clear();
  }
  void work() { fail_from(~uint64_t{0}); }
  // Calls `act` once, before the change with this number, in place of another process.
  void call_at(uint64_t operation, std::function<void()> act) {
    const std::lock_guard lock(mutex_);
    call_at_ = operation;
    act_ = std::move(act);
  }
  // Limits the bytes of all files. A write that exceeds the limit fails.
  void limit(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_max_ = bytes;
  }
  uint64_t bytes_used() const {
    const std::lock_guard lock(mutex_);
    uint64_t bytes = 0;
    for (const auto& [path, folder] : folders_) {
      for (const auto& [name, file] : folder.names) bytes += file->bytes.size();
    }
    return bytes;
  }
  uint64_t operations() const {
    const std::lock_guard lock(mutex_);
    return operations_;
  }
  // Crashes the process alone, which loses nothing; the host, which loses all unsynced data; or the
  // host with even chances for each part of that data.
  void crash(After after, uint64_t seed = 0) {
    const std::lock_guard lock(mutex_);
    std::minstd_rand random(static_cast<uint32_t>(seed + 1));
    const auto is_lost = [&] {
      return after == After::kPowerLoss || (after == After::kChance && random() % 2 == 0);
    };
    if (after == After::kKill) return;
    for (auto& [path, folder] : folders_) {
      for (const auto& [name, durable] : folder.durable) {
        const auto now = folder.names.find(name);
        if (now != folder.names.end() && now->second == durable) continue;
        if (is_lost()) folder.names[name] = durable;
      }
      std::erase_if(folder.names, [&](const auto& entry) {
        return !folder.durable.contains(entry.first) && is_lost();
      });
      folder.durable = folder.names;
      for (const auto& [name, file] : folder.names) {
        std::string bytes = file->durable;
        bytes.resize(file->bytes.size());
        for (size_t i = 0; i < bytes.size(); ++i) {
          if (i >= file->durable.size() || bytes[i] != file->bytes[i]) {
            if (!is_lost()) bytes[i] = file->bytes[i];
          }
        }
        if (is_lost() && file->durable.size() < bytes.size()) bytes.resize(file->durable.size());
        file->bytes = file->durable = bytes;
      }
    }
  }

  // --- for tests that damage files ---
  std::vector<std::string> paths() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [path, folder] : folders_) {
      for (const auto& [name, file] : folder.names) all.push_back(path + "/" + name);
    }
    return all;
  }
  std::string& bytes_of(const std::string& path) { return find(path)->bytes; }
  bool has_folder(const std::string& path) const { return folders_.contains(path); }

  // --- FileSystem ---
  Result<std::unique_ptr<elastic::OutputFile>> create(const std::string& path) override;
  Result<std::unique_ptr<elastic::StoredFile>> open(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    FFDL_RETURN_IF_ERROR(change("rename", from));
    auto [folder, name] = split(from);
    auto [to_folder, to_name] = split(to);
    if (find(from) == nullptr) return Status(StatusCode::kNotFound, "rename '" + from + "'");
    folders_[to_folder].names[to_name] = folders_[folder].names.at(name);
    folders_[folder].names.erase(name);
    return {};
  }
  Status sync_folder(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    FFDL_RETURN_IF_ERROR(change("sync", path));
    folders_[path].durable = folders_[path].names;
    return {};
  }
  Status make_folder(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    FFDL_RETURN_IF_ERROR(change("make", path));
    folders_[path];
    return {};
  }
  Status remove_file(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    FFDL_RETURN_IF_ERROR(change("remove", path));
    const auto [folder, name] = split(path);
    folders_[folder].names.erase(name);
    return {};
  }
  Status remove_folder(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    FFDL_RETURN_IF_ERROR(change("remove", path));
    if (!folders_[path].names.empty()) return Status(StatusCode::kConflict, "not empty: " + path);
    folders_.erase(path);
    return {};
  }
  bool exists(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return find(path) != nullptr;
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    std::set<std::string> names;
    bool is_there = false;
    for (const auto& [folder, content] : folders_) {
      is_there = is_there || folder == path || folder.starts_with(path + "/");
      if (folder == path) {
        for (const auto& [name, file] : content.names) names.insert(name);
      } else if (folder.starts_with(path + "/")) {
        const std::string rest = folder.substr(path.size() + 1);
        names.insert(rest.substr(0, rest.find('/')));
      }
    }
    if (!is_there) return Status(StatusCode::kNotFound, "list '" + path + "': no such folder");
    return std::vector(names.begin(), names.end());
  }

 private:
  struct File {
    std::string bytes;
    std::string durable;
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;
  struct Folder {
    Names names;
    Names durable;
  };
  class Output;
  class Stored;

  static std::pair<std::string, std::string> split(const std::string& path) {
    const size_t slash = path.rfind('/');
    return {path.substr(0, slash), path.substr(slash + 1)};
  }
  std::shared_ptr<File> find(const std::string& path) {
    const auto [folder, name] = split(path);
    const auto in = folders_.find(folder);
    if (in == folders_.end()) return nullptr;
    const auto file = in->second.names.find(name);
    return file == in->second.names.end() ? nullptr : file->second;
  }
  Status change(std::string_view doing, const std::string& path) {
    if (++operations_ == call_at_ && act_) std::exchange(act_, nullptr)();
    if (operations_ < fail_from_) return {};
    return Status(code_, fmt::format("{} '{}': it fails here", doing, path));
  }

  mutable std::recursive_mutex mutex_;  // recursive for call_at()
  std::map<std::string, Folder> folders_;
  uint64_t operations_ = 0;
  uint64_t fail_from_ = ~uint64_t{0};
  StatusCode code_ = StatusCode::kCancelled;
  uint64_t bytes_max_ = ~uint64_t{0};
  uint64_t call_at_ = ~uint64_t{0};
  std::function<void()> act_;
};

class MemoryFiles::Output final : public elastic::OutputFile {
 public:
  Output(MemoryFiles& files, std::string path, std::shared_ptr<File> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}
  // A process that is killed in a write has written the first half.
  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(files_.mutex_);
    const uint64_t used = files_.bytes_max_ == ~uint64_t{0} ? 0 : files_.bytes_used();
    Status may = files_.change(fmt::format("write at byte {} of", offset), path_);
    const uint64_t grown = std::max<uint64_t>(file_->bytes.size(), offset + bytes.size());
    if (may.ok() && grown - file_->bytes.size() + used > files_.bytes_max_) {
      may = Status(StatusCode::kExhausted, fmt::format("write '{}': the disk is full", path_));
    }
    const size_t size = may.ok() ? bytes.size() : bytes.size() / 2;
    if (size > 0) {
      file_->bytes.resize(std::max<size_t>(file_->bytes.size(), offset + size));
      std::copy_n(reinterpret_cast<const char*>(bytes.data()), size,
                  file_->bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    return may;
  }
  Status sync() override {
    const std::lock_guard lock(files_.mutex_);
    FFDL_RETURN_IF_ERROR(files_.change("sync", path_));
    file_->durable = file_->bytes;
    return {};
  }

 private:
  MemoryFiles& files_;
  const std::string path_;
  const std::shared_ptr<File> file_;
};

class MemoryFiles::Stored final : public elastic::StoredFile {
 public:
  Stored(MemoryFiles& files, std::string path, std::shared_ptr<File> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}
  uint64_t size() const override {
    const std::lock_guard lock(files_.mutex_);
    return file_->bytes.size();
  }
  Status read(uint64_t offset, std::span<std::byte> to) override {
    const std::lock_guard lock(files_.mutex_);
    if (offset + to.size() > file_->bytes.size()) {
      return Status(StatusCode::kCorrupt, fmt::format("read at byte {} of '{}'", offset, path_));
    }
    std::copy_n(file_->bytes.begin() + static_cast<std::ptrdiff_t>(offset), to.size(),
                reinterpret_cast<char*>(to.data()));
    return {};
  }

 private:
  MemoryFiles& files_;
  const std::string path_;
  const std::shared_ptr<File> file_;
};

inline Result<std::unique_ptr<elastic::OutputFile>> MemoryFiles::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FFDL_RETURN_IF_ERROR(change("create", path));
  const auto [folder, name] = split(path);
  const auto file = std::make_shared<File>();
  folders_[folder].names[name] = file;
  return std::unique_ptr<elastic::OutputFile>(std::make_unique<Output>(*this, path, file));
}

inline Result<std::unique_ptr<elastic::StoredFile>> MemoryFiles::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  auto file = find(path);
  if (file == nullptr) return Status(StatusCode::kNotFound, "open '" + path + "': no such file");
  return std::unique_ptr<elastic::StoredFile>(
      std::make_unique<Stored>(*this, path, std::move(file)));
}

}  // namespace ffdl::testing
