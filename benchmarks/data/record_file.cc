#include "benchmarks/data/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "benchmarks/harness/folder.h"

namespace ffdl::bench {

Result<std::unique_ptr<RecordFile>> RecordFile::make(const Shape& shape) {
  FFDL_ASSIGN_OR_RETURN(const std::string folder, make_folder());
  auto file = std::unique_ptr<RecordFile>(new RecordFile(folder, shape));
  FFDL_RETURN_IF_ERROR(file->fill());
  return file;
}

RecordFile::~RecordFile() {
  if (map_.data() != nullptr) munmap(const_cast<std::byte*>(map_.data()), map_.size());
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Status RecordFile::fill() {
  std::vector<uint64_t> record(shape_.record_bytes / sizeof(uint64_t));
  std::ofstream out(path(), std::ios::binary);
  uint64_t number = 1;
  for (uint64_t i = 0; i < shape_.records; ++i) {
    for (uint64_t& word : record) word = number *= 0x9e3779b97f4a7c15U;
    out.write(reinterpret_cast<const char*>(record.data()),
              static_cast<std::streamsize>(shape_.record_bytes));
  }
  out.close();
  const int fd = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
  const size_t size = shape_.records * shape_.record_bytes;
  void* map = fd < 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (fd >= 0) ::close(fd);
  if (!out || map == MAP_FAILED) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("write '{}': it could not be written and mapped", path()));
  }
  map_ = {static_cast<const std::byte*>(map), size};
  return {};
}

bool RecordFile::evict() {
  const int fd = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  auto* const map = const_cast<std::byte*>(map_.data());
  std::vector<unsigned char> pages((map_.size() + 4095) / 4096);
  bool gone = false;
  // Another process may still be reading a part of the file.
  for (int attempt = 0; attempt < 100 && !gone; ++attempt) {
    // Only pages that are written back and in no page table are removed.
    fdatasync(fd);
    madvise(map, map_.size(), MADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (mincore(map, map_.size(), pages.data()) != 0) break;
    gone = std::none_of(pages.begin(), pages.end(),
                        [](unsigned char page) { return (page & 1) != 0; });
  }
  ::close(fd);
  return gone;
}

}  // namespace ffdl::bench
