// A format that ffdl does not know: images in an IDX file, as used by MNIST.
//
// A DataSource returns the number and the format of its samples, and reads the samples that are
// requested. The library does the rest: it assigns the samples, reads ahead on threads of its own,
// and uses each image once per epoch.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/data_source.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/runtime.h"
#include "ffdl/store.h"

namespace {

using namespace std::chrono_literals;
using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;

constexpr size_t kHeaderBytes = 16;  // 0, 0, 8 for bytes, 3 axes; then the length of each,
                                     // big-endian

class IdxImages final : public ffdl::DataSource {
 public:
  static Result<std::unique_ptr<IdxImages>> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return Status(StatusCode::kNotFound, fmt::format("open '{}': check the path", path));
    auto images = std::unique_ptr<IdxImages>(new IdxImages(path, fd));
    std::array<std::byte, kHeaderBytes> header;
    FFDL_RETURN_IF_ERROR(images->read_at(0, header));
    if (number_at(header, 0) != 0x00000803) {
      return Status(StatusCode::kCorrupt,
                    fmt::format("open '{}': no IDX file of images at byte 0; name another", path));
    }
    images->count_ = number_at(header, 4);
    images->shape_ = {number_at(header, 8), number_at(header, 12)};
    struct stat file{};
    const uint64_t end = kHeaderBytes + images->count_ * images->image_bytes();
    if (::fstat(fd, &file) != 0 || static_cast<uint64_t>(file.st_size) != end) {
      return Status(StatusCode::kCorrupt,
                    fmt::format("open '{}': it has {} bytes, and {} by its header; copy it again",
                                path, file.st_size, end));
    }
    return images;
  }
  ~IdxImages() override { ::close(fd_); }
  IdxImages(const IdxImages&) = delete;
  IdxImages& operator=(const IdxImages&) = delete;

  uint64_t samples() const override { return count_; }
  ffdl::SampleFormat format() const override { return {"|u1", shape_, image_bytes(), true}; }

  // Called by several threads at a time. place() is the destination of the samples if the caller
  // has one, and else memory of the batch. Large samples can be read one by one. Small ones are
  // better read in one call for all that are adjacent.
  Status read(std::span<const uint64_t> indices, ffdl::SampleBatch& batch) const override {
    const std::span<std::byte> memory = batch.place(indices.size() * image_bytes());
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] >= count_) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("read image {} of {}: it has {}; ask for one of them", indices[i],
                                  path_, count_));
      }
      const std::span<std::byte> image = memory.subspan(i * image_bytes(), image_bytes());
      FFDL_RETURN_IF_ERROR(read_at(kHeaderBytes + indices[i] * image_bytes(), image));
      batch.add(image);  // one add() or skip() for each number, in this order
    }
    return {};
  }

 private:
  IdxImages(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  static uint32_t number_at(std::span<const std::byte> bytes, size_t at) {
    uint32_t number = 0;
    for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
    return number;
  }
  uint64_t image_bytes() const { return shape_[0] * shape_[1]; }

  // An error names file and byte.
  Status read_at(uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return Status(StatusCode::kUnavailable,
                      fmt::format("read '{}' at byte {}: {}; check the disk", path_, offset,
                                  std::strerror(errno)));
      }
      if (got == 0) {
        return Status(StatusCode::kCorrupt,
                      fmt::format("read '{}': it ends at byte {}; copy it again", path_, offset));
      }
      offset += static_cast<uint64_t>(got);
      to = to.subspan(static_cast<size_t>(got));
    }
    return {};
  }

  const std::string path_;
  const int fd_;
  uint64_t count_ = 0;
  std::vector<uint64_t> shape_{0, 0};  // rows and columns of an image
};

// Trains nothing: counts how often each image is used. Image i begins with the number i.
Status count_images(const IdxImages& images, std::vector<int>& times) {
  FFDL_ASSIGN_OR_RETURN(const auto store, ffdl::open_store("mem://", ffdl::system_runtime()));
  FFDL_ASSIGN_OR_RETURN(const auto ledger,
                        ffdl::make_store_ledger({.samples = images.samples(),
                                                 .partition_samples = 100,
                                                 .epochs = 2,
                                                 .shuffle = ffdl::Shuffle::kSamples},
                                                {.id = "worker-0"}, *store));
  FFDL_ASSIGN_OR_RETURN(const auto pipeline,
                        ffdl::DataPipeline::create(images, *ledger, {.threads = 2}));
  ffdl::DataBatch batch;
  while (!ledger->is_done()) {
    FFDL_RETURN_IF_ERROR(pipeline->next(batch, 32));
    if (batch.ranges.empty()) {  // others hold the rest of this epoch, if any is left
      FFDL_RETURN_IF_ERROR(ledger->wait(ffdl::deadline_in(60s)));
      continue;
    }
    for (const std::span<const std::byte> image : batch.samples) {
      uint32_t number = 0;
      std::memcpy(&number, image.data(), sizeof number);
      ++times[number];
    }
    FFDL_RETURN_IF_ERROR(ledger->commit());
  }
  return {};
}

// Returns images as large as those of MNIST.
std::string made_up_images(uint32_t count) {
  std::string bytes{"\0\0\x08\x03", 4};
  for (const uint32_t axis : {count, 28U, 28U}) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(axis >> shift);
  }
  for (uint32_t i = 0; i < count; ++i) {
    std::string image(28 * 28, static_cast<char>(i));
    std::memcpy(image.data(), &i, sizeof i);
    bytes += image;
  }
  return bytes;
}

Status run(const std::string& path) {
  FFDL_ASSIGN_OR_RETURN(const auto images, IdxImages::open(path));
  std::vector<int> times(images->samples());
  FFDL_RETURN_IF_ERROR(count_images(*images, times));
  for (const int count : times) {
    if (count != 2) return {StatusCode::kInternal, "an image was not used twice"};
  }
  fmt::print("{} images, each used once in each of 2 epochs\n", times.size());
  return {};
}

}  // namespace

int main() {
  std::string path = std::filesystem::temp_directory_path() / "ffdl-images-XXXXXX";
  const int fd = ::mkstemp(path.data());
  const std::string bytes = made_up_images(1000);
  const bool is_written =
      fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(fd);
  const Status status = is_written ? run(path) : Status(StatusCode::kUnavailable, "write " + path);
  ::unlink(path.c_str());
  if (status.ok()) return EXIT_SUCCESS;
  fmt::print(stderr, "{}\n", status.to_string());
  return EXIT_FAILURE;
}
