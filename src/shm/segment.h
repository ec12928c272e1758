#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"

// Shared-memory segments. A named segment is a file of tmpfs in /dev/shm with mode 0600. An
// anonymous one is a memfd. A segment contains no pointers. docs/internals/shm-layout.md draws
// them.
namespace ffdl::shm {

enum class SegmentKind : uint32_t {
  kParameterServer = 1,
  kCommunicator = 2,
  kMemory = 3,
  kSumRing = 4,
  kBatchRing = 5,
};

// The first bytes of every segment. All fields are constant once the segment is visible.
struct SegmentHeader {
  uint64_t magic;   // kSegmentMagic
  uint32_t format;  // version of this header
  SegmentKind kind;
  uint32_t layout_version;  // version of the layout after the header, per kind
  uint32_t reserved;
  uint64_t bytes;            // size of the whole segment
  uint64_t generation;       // random: distinguishes two segments of one name
  int64_t creator_pid;       // in the creator's pid namespace, for display
  uint64_t created_unix_ns;  // for display
  uint64_t checksum;         // XXH3 of all fields above
};
static_assert(sizeof(SegmentHeader) == 64);

inline constexpr uint64_t kSegmentMagic = 0x31676573'6c646666;  // "ffdlseg1" in memory
inline constexpr uint32_t kSegmentFormat = 1;
inline constexpr std::string_view kSegmentFolder = "/dev/shm";
inline constexpr std::string_view kSegmentPrefix = "ffdl.";

struct SegmentSpec {
  std::string name{};  // empty: anonymous
  SegmentKind kind = SegmentKind::kParameterServer;
  uint32_t layout_version = 0;
  uint64_t bytes = 0;  // including the header
  // Sets the kernel's policy for the location of pages, through a temporary mapping. It is called
  // before any page exists. It must neither read nor write the memory.
  std::function<void(std::byte*)> place{};
};

// Checks that the name may become a file name.
Status check_segment_name(std::string_view name);

// Returns the path of a named segment.
std::string segment_path(std::string_view name);

// Reads and checks the header of an open file, as open() does, without mapping it.
Result<SegmentHeader> read_segment_header(int fd, std::string_view name);

// A mapped segment.
// Threads: a value with one owner; the memory follows the rules of its layout.
// Owns: the mapping and one descriptor. The name stays until unlink().
// Errors: kExhausted (no room), kConflict (name in use), kNotFound, kCorrupt (truncated or changed
//         bytes), kInvalidArgument (bad name, another kind or version, a segment that another user
//         owns or may write to).
class Segment {
 public:
  Segment() = default;
  // Reserves all pages, so that a full /dev/shm is an error here and not a bus error at a later
  // store. Huge pages are used if the system grants them. The memory is zero. No other process sees
  // the segment before publish().
  static Result<Segment> create(const SegmentSpec& spec);
  Status publish();

  static Result<Segment> open(std::string_view name, SegmentKind kind, uint32_t layout_version);
  // Opens a segment, named or not, that another process of this host has open. Needs the same user,
  // and /proc.
  static Result<Segment> open_of(int64_t pid, int fd, SegmentKind kind, uint32_t layout_version);

  // Puts new pages, all zero, at the same addresses of this process. Other processes keep the old
  // pages. They no longer see or change this segment. Anonymous segments only.
  Status renew();

  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  const SegmentHeader& header() const { return *reinterpret_cast<const SegmentHeader*>(data_); }
  int fd() const { return fd_.get(); }

  // Returns kNotFound if the name was removed after opening: no further process will find the
  // segment.
  Status check_linked() const;
  // Removes the name if it still names this segment. Processes that have it mapped keep it.
  void unlink();

 private:
  // Takes `fd` over, also on failure.
  static Result<Segment> open_fd(int fd, std::string_view name, SegmentKind kind,
                                 uint32_t layout_version);
  Status map(int fd, uint64_t bytes, int flags);

  std::string name_;
  base::ForkPrivateFd fd_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace ffdl::shm
