#include "elastic/state/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/errors.h"
#include "base/held_signal.h"
#include "base/limits.h"
#include "base/resource_limit.h"

namespace ffdl::elastic {
namespace {

Status failed(std::string_view doing, const std::string& path, int error) {
  StatusCode otherwise = StatusCode::kUnavailable;
  if (error == ENOENT) otherwise = StatusCode::kNotFound;
  if (error == ENOTEMPTY || error == EEXIST) otherwise = StatusCode::kConflict;
  return base::system_failure(fmt::format("{} '{}'", doing, path), error,
                              "does its folder exist, and is it writable", otherwise);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// Passes whole blocks with the same alignment in memory and in the file directly to the disk,
// without a copy in the system's cache. The bytes before and after them go through the cache.
class SystemOutputFile final : public OutputFile {
 public:
  // `direct` writes to the same file as `fd`, or is -1.
  SystemOutputFile(std::string path, int fd, int direct)
      : path_(std::move(path)), fd_(fd), direct_(direct), is_direct_(direct >= 0) {}

  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    const base::HeldSignal file_size_signal(SIGXFSZ);
    const BlockCut cut = cut_at_blocks(offset, bytes);
    FFDL_RETURN_IF_ERROR(put(fd_.get(), offset, cut.before));
    offset += cut.before.size();
    FFDL_RETURN_IF_ERROR(put_directly(offset, cut.blocks));
    return put(fd_.get(), offset + cut.blocks.size(), cut.after);
  }
  Status sync() override {
    return ::fsync(fd_.get()) == 0 ? Status() : failed("write to the disk", path_, errno);
  }

 private:
  // Writes directly, as far as the file system can. The rest goes through the cache, which reports
  // any error.
  Status put_directly(uint64_t offset, std::span<const std::byte> bytes) {
    while (is_direct_ && !bytes.empty()) {
      const ssize_t taken =
          ::pwrite(direct_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (taken < 0 && errno == EINTR) continue;
      is_direct_ = taken > 0 && static_cast<uint64_t>(taken) % kBlockBytes == 0;
      bytes = bytes.subspan(static_cast<size_t>(std::max<ssize_t>(taken, 0)));
      offset += static_cast<uint64_t>(std::max<ssize_t>(taken, 0));
    }
    return put(fd_.get(), offset, bytes);
  }

  Status put(int fd, uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t taken = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (taken < 0 && errno == EINTR) continue;
      if (taken < 0) return failed(fmt::format("write at byte {} of", offset), path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(taken));
      offset += static_cast<uint64_t>(taken);
    }
    return {};
  }

  const std::string path_;
  const Descriptor fd_;
  const Descriptor direct_;
  bool is_direct_;
};

// Opens an earlier file of this user that has no second name, and empties it. Returns -1 if there
// is none. A pipe does not hold it up.
int open_earlier(int folder, const char* name) {
  const int fd = ::openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat facts = {};
  const bool is_own = fd >= 0 && ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
                      facts.st_nlink == 1 && facts.st_uid == ::geteuid();
  if (is_own && ::ftruncate(fd, 0) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

// Opens the file of `fd` again, for writes that go directly to the disk. Returns -1 if that is not
// possible, or if the name is of another file by now.
int open_direct(int folder, const char* name, int fd) {
  const int direct =
      ::openat(folder, name, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (direct < 0) return -1;
  struct stat one = {};
  struct stat other = {};
  if (::fstat(fd, &one) == 0 && ::fstat(direct, &other) == 0 && one.st_dev == other.st_dev &&
      one.st_ino == other.st_ino) {
    return direct;
  }
  ::close(direct);
  return -1;
}

class SystemStoredFile final : public StoredFile {
 public:
  SystemStoredFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  uint64_t size() const override { return size_; }
  Status read(uint64_t offset, std::span<std::byte> to) override {
    while (!to.empty()) {
      const ssize_t got = ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed(fmt::format("read at byte {} of", offset), path_, errno);
      if (got == 0) {
        return base::make_error(StatusCode::kCorrupt,
                                "read at byte {} of '{}': it ends there, {} bytes too early",
                                offset, path_, to.size());
      }
      to = to.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  const std::string path_;
  const Descriptor fd_;
  const uint64_t size_;
};

class SystemFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
    const std::filesystem::path whole(path);
    const std::string above = whole.has_parent_path() ? whole.parent_path().string() : ".";
    const std::string name = whole.filename().string();
    const Descriptor folder(
        ::open(above.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (folder.get() < 0 && (errno == ENOTDIR || errno == ELOOP)) {
      return base::make_error(StatusCode::kUnavailable,
                              "create '{}': its folder is a link, or no folder; remove the link, "
                              "or choose a folder to which no other user may write",
                              path);
    }
    if (folder.get() < 0) return failed("create", path, errno);
    for (int tries = 0; tries < base::kContentionMax; ++tries) {
      int fd = ::openat(folder.get(), name.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      if (fd < 0 && errno != EEXIST) return failed("create", path, errno);
      if (fd < 0) fd = open_earlier(folder.get(), name.c_str());
      if (fd >= 0) {
        const int direct = open_direct(folder.get(), name.c_str(), fd);
        return std::unique_ptr<OutputFile>(std::make_unique<SystemOutputFile>(path, fd, direct));
      }
      if (::unlinkat(folder.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
        return failed("replace what another process has placed at", path, errno);
      }
    }
    return base::make_error(StatusCode::kUnavailable,
                            "create '{}': another process has placed a file or link there {} times "
                            "meanwhile; choose a folder to which no other user may write",
                            path, base::kContentionMax);
  }

  Result<std::unique_ptr<StoredFile>> open(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed("open", path, errno);
    struct stat facts = {};
    if (::fstat(fd, &facts) != 0) {
      const int error = errno;
      ::close(fd);
      return failed("open", path, error);
    }
    return std::unique_ptr<StoredFile>(
        std::make_unique<SystemStoredFile>(path, fd, static_cast<uint64_t>(facts.st_size)));
  }

  Status rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? Status() : failed("rename to", to, errno);
  }

  Status sync_folder(const std::string& path) override {
    const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 || ::fsync(folder.get()) != 0) {
      return failed("write to the disk", path, errno);
    }
    return {};
  }

  Status make_folder(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? failed("make the folder", path, error.value()) : Status();
  }

  Status remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return failed("remove", path, errno);
  }

  Status remove_folder(const std::string& path) override {
    if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
    return failed("remove the folder", path, errno);
  }

  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return failed("list", path, error.value());
    return names;
  }
};

Status write_text(FileSystem& files, const std::string& path, std::string_view text) {
  FFDL_ASSIGN_OR_RETURN(const auto file, files.create(path));
  FFDL_RETURN_IF_ERROR(file->write(0, std::as_bytes(std::span(text))));
  return file->sync();
}

}  // namespace

BlockCut cut_at_blocks(uint64_t offset, std::span<const std::byte> bytes) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uint64_t ahead = (kBlockBytes - offset % kBlockBytes) % kBlockBytes;
  const bool lie_alike = address % kBlockBytes == offset % kBlockBytes;
  if (!lie_alike || bytes.size() < ahead + kDirectBytesMin) return {bytes, {}, {}};
  const uint64_t whole = (bytes.size() - ahead) / kBlockBytes * kBlockBytes;
  return {bytes.first(ahead), bytes.subspan(ahead, whole), bytes.subspan(ahead + whole)};
}

FileSystem& system_files() {
  static SystemFiles files;  // it has no state
  return files;
}

Status replace_file(FileSystem& files, const std::string& folder, const std::string& name,
                    int writer, std::string_view text) {
  const std::string path = path_in(folder, name);
  const std::string unfinished = fmt::format("{}.{:05}{}", path, writer, kUnfinished);
  Status replaced = write_text(files, unfinished, text);
  if (replaced.ok()) replaced = files.rename(unfinished, path);
  if (!replaced.ok()) {
    static_cast<void>(files.remove_file(unfinished).ok());
    return replaced;
  }
  return files.sync_folder(folder);
}

Result<std::string> read_text(FileSystem& files, const std::string& path, uint64_t bytes_max) {
  FFDL_ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() > bytes_max) {
    return base::make_error(StatusCode::kCorrupt,
                            "read '{}': it has {} bytes, and at most {} are possible", path,
                            file->size(), bytes_max);
  }
  std::string text(file->size(), '\0');
  FFDL_RETURN_IF_ERROR(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace ffdl::elastic
