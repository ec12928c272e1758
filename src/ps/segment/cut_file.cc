#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#define XXH_STATIC_LINKING_ONLY
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"
#include "base/held_signal.h"
#include "base/resource_limit.h"
#include "ffdl/ps/parameter_server.h"

// Stores a cut as a file: a fixed header, the rule's name, the partitions, weights and state as in
// memory (little-endian), and a checksum of all that.
namespace ffdl {
namespace {

using base::make_error;

struct FileHeader {
  char magic[8];
  uint64_t version;
  uint64_t updates;
  uint64_t parameters;
  uint64_t state_count;
  uint64_t partitions;
  char rule[64];
};
static_assert(sizeof(FileHeader) == 112 && sizeof(PartitionProgress) == 32);
constexpr char kMagic[8] = {'f', 'f', 'd', 'l', 'c', 'u', 't', '1'};

uint64_t file_bytes(const FileHeader& header) {
  return sizeof header + header.partitions * sizeof(PartitionProgress) +
         (1 + header.state_count) * header.parameters * sizeof(float) + sizeof(uint64_t);
}

// Returns the error; the previous file is unchanged then.
Status cannot_save(const std::string& path, int error) {
  return base::system_failure(fmt::format("save a cut to '{}'", path), error,
                              "does its folder exist, and is it writable");
}

class File {
 public:
  File(const std::string& path, int flags) : path_(path), fd_(::open(path.c_str(), flags, 0600)) {
    XXH3_64bits_reset(&sum_);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  uint64_t checksum() const { return XXH3_64bits_digest(&sum_); }

  Status write(const void* from, uint64_t bytes) {
    const auto* next = static_cast<const std::byte*>(from);
    XXH3_64bits_update(&sum_, from, bytes);
    const base::HeldSignal file_size_signal(SIGXFSZ);
    while (bytes > 0) {
      const ssize_t done = ::write(fd_, next, bytes);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return cannot_save(path_, errno);
      next += done;
      bytes -= static_cast<uint64_t>(done);
    }
    return {};
  }
  Status read(void* to, uint64_t bytes) {
    auto* next = static_cast<std::byte*>(to);
    for (uint64_t left = bytes; left > 0;) {
      const ssize_t done = ::read(fd_, next, left);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) {
        return make_error(StatusCode::kCorrupt,
                          "load a cut from '{}': it ends too early; load another", path_);
      }
      next += done;
      left -= static_cast<uint64_t>(done);
    }
    XXH3_64bits_update(&sum_, to, bytes);
    return {};
  }

 private:
  const std::string& path_;
  int fd_;
  XXH3_state_t sum_;
};

Status write_cut(const ParameterServerCut& cut, File& file) {
  FileHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = cut.version;
  header.updates = cut.updates;
  header.parameters = cut.weights.size();
  header.state_count = cut.state.size();
  header.partitions = cut.partitions.size();
  cut.rule.copy(header.rule, sizeof header.rule - 1);
  FFDL_RETURN_IF_ERROR(file.write(&header, sizeof header));
  FFDL_RETURN_IF_ERROR(
      file.write(cut.partitions.data(), cut.partitions.size() * sizeof(PartitionProgress)));
  FFDL_RETURN_IF_ERROR(file.write(cut.weights.data(), cut.weights.size() * sizeof(float)));
  for (const std::vector<float>& values : cut.state) {
    if (values.size() != cut.weights.size()) {
      return base::invalid_argument("save a cut: {} values of state for {} weights", values.size(),
                                    cut.weights.size());
    }
    FFDL_RETURN_IF_ERROR(file.write(values.data(), values.size() * sizeof(float)));
  }
  const uint64_t checksum = file.checksum();
  return file.write(&checksum, sizeof checksum);
}

Status move_into_place(const std::string& from, const std::string& to, const File& file) {
  if (fsync(file.fd()) != 0 || std::rename(from.c_str(), to.c_str()) != 0) {
    return cannot_save(to, errno);
  }
  // The name itself is durable once its folder is.
  const std::string folder = std::filesystem::path(to).parent_path().string();
  const File opened(folder.empty() ? std::string(".") : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened.is_open()) fsync(opened.fd());
  return {};
}

}  // namespace

Status ParameterServerCut::save(const std::string& path) const {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  if (!file.is_open()) {
    return cannot_save(path, errno);
  }
  Status saved = write_cut(*this, file);
  if (saved.ok()) saved = move_into_place(temporary, path, file);
  if (!saved.ok()) ::unlink(temporary.c_str());
  return saved;
}

Result<ParameterServerCut> ParameterServerCut::load(const std::string& path) {
  File file(path, O_RDONLY | O_CLOEXEC);
  if (!file.is_open()) {
    return base::system_failure(fmt::format("load a cut from '{}'", path), errno, "check the path",
                                errno == ENOENT ? StatusCode::kNotFound : StatusCode::kUnavailable);
  }
  FileHeader header = {};
  struct stat facts = {};
  FFDL_RETURN_IF_ERROR(file.read(&header, sizeof header));
  const bool sane = std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
                    header.parameters < (uint64_t{1} << 42) &&
                    header.state_count <= kRuleStateMax && header.partitions <= (1U << 20) &&
                    header.rule[sizeof header.rule - 1] == 0;
  if (!sane || fstat(file.fd(), &facts) != 0 ||
      file_bytes(header) != static_cast<uint64_t>(facts.st_size)) {
    return make_error(StatusCode::kCorrupt,
                      "load a cut from '{}': {} bytes that are not a complete cut; load another",
                      path, facts.st_size);
  }
  ParameterServerCut cut;
  cut.version = header.version;
  cut.updates = header.updates;
  cut.rule = header.rule;
  cut.partitions.resize(header.partitions);
  cut.weights.resize(header.parameters);
  cut.state.assign(header.state_count, std::vector<float>(header.parameters));
  FFDL_RETURN_IF_ERROR(
      file.read(cut.partitions.data(), header.partitions * sizeof(PartitionProgress)));
  FFDL_RETURN_IF_ERROR(file.read(cut.weights.data(), header.parameters * sizeof(float)));
  for (std::vector<float>& values : cut.state) {
    FFDL_RETURN_IF_ERROR(file.read(values.data(), values.size() * sizeof(float)));
  }
  const uint64_t expected = file.checksum();
  uint64_t stored = 0;
  FFDL_RETURN_IF_ERROR(file.read(&stored, sizeof stored));
  if (stored != expected) {
    return make_error(StatusCode::kCorrupt,
                      "load a cut from '{}': the checksum fails; load another", path);
  }
  return cut;
}

}  // namespace ffdl
