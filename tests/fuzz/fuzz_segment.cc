// Opens arbitrary bytes as a segment. They are refused, or the segment has the length that it
// states.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "shm/segment.h"

namespace {

using namespace ffdl;

constexpr uint32_t kVersion = 7;

void open_as_segment(std::string_view bytes) {
  const int fd = memfd_create("fuzz", MFD_CLOEXEC);
  FFDL_CHECK(fd >= 0, "there is memory");
  FFDL_CHECK(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a file");
  const auto segment =
      shm::Segment::open_of(getpid(), fd, shm::SegmentKind::kCommunicator, kVersion);
  if (segment.ok()) {
    FFDL_CHECK(segment->bytes() == bytes.size(), "no access is behind the end of the file");
    FFDL_CHECK(std::memcmp(segment->data(), bytes.data(), bytes.size()) == 0, "what the file has");
  } else {
    FFDL_CHECK(segment.status().code() == StatusCode::kCorrupt ||
                   segment.status().code() == StatusCode::kInvalidArgument,
               "the only things wrong with it");
  }
  close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > (size_t{1} << 20)) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  open_as_segment(bytes);
  if (size < sizeof(shm::SegmentHeader)) return 0;
  // The checksum stops most bytes, so headers are also opened with a valid one.
  shm::SegmentHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.magic = shm::kSegmentMagic;
  header.format = shm::kSegmentFormat;
  header.checksum = XXH3_64bits(&header, offsetof(shm::SegmentHeader, checksum));
  std::memcpy(bytes.data(), &header, sizeof header);
  open_as_segment(bytes);
  return 0;
}
