#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"

// Shared-memory segments. A named one is a file of tmpfs in /dev/shm with mode 0600; an anonymous
// one is a memfd. Nothing in a segment is a pointer. docs/shm-layout.md draws them.
namespace ffdl::shm {

enum class SegmentKind : uint32_t {
  kParameterServer = 1,
  kCommunicator = 2,
  kMemory = 3,
  kSumRing = 4,
  kBatchRing = 5,
};

// The first bytes of every segment. All fields are constant once the segment can be seen.
struct SegmentHeader {
  uint64_t magic;   // kSegmentMagic
  uint32_t format;  // version of this header
  SegmentKind kind;
  uint32_t layout_version;  // of what follows the header, per kind
  uint32_t reserved;
  uint64_t bytes;            // size of the whole segment
  uint64_t generation;       // random: two segments of one name are told apart by it
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
  // Tells the kernel where pages shall come from, through a mapping that is gone afterwards. Called
  // before there is any page; must neither read nor write the memory.
  std::function<void(std::byte*)> place{};
};

// The name may become a file name.
Status check_segment_name(std::string_view name);

// The path of a named segment.
std::string segment_path(std::string_view name);

// Reads and checks the header of an open file, as open() does, without mapping it.
Result<SegmentHeader> read_segment_header(int fd, std::string_view name);

// A mapped segment.
// Threads: a value with one owner; the memory follows the rules of its layout.
// Owns: the mapping and one descriptor. The name stays until unlink().
// Errors: kExhausted (no room), kConflict (name in use), kNotFound, kCorrupt (truncated or changed
//         bytes), kInvalidArgument (bad name, another kind or version).
class Segment {
 public:
  Segment() = default;
  // All pages are reserved here, so that a full /dev/shm is an error now and not a bus error at
  // some later store. Huge pages are taken where the system grants them. The memory is zero. Nobody
  // else sees the segment before publish().
  static Result<Segment> create(const SegmentSpec& spec);
  Status publish();

  static Result<Segment> open(std::string_view name, SegmentKind kind, uint32_t layout_version);
  // One that another process of this host has open, named or not. Needs the same user, and /proc.
  static Result<Segment> open_of(int64_t pid, int fd, SegmentKind kind, uint32_t layout_version);

  // Puts new pages, all zero, at the same addresses of this process. Whoever else has the old ones
  // keeps them, and neither sees nor changes anything of ours from now on. Anonymous segments only.
  Status renew();

  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  const SegmentHeader& header() const { return *reinterpret_cast<const SegmentHeader*>(data_); }
  int fd() const { return fd_.get(); }

  // kNotFound when the name was removed after this was opened: nobody new will find the segment.
  Status check_linked() const;
  // Removes the name, if it still names this segment. Those who have it mapped keep it.
  void unlink();

 private:
  // Takes `fd` over, also when it fails.
  static Result<Segment> open_fd(int fd, std::string_view name, SegmentKind kind,
                                 uint32_t layout_version);
  Status map(int fd, uint64_t bytes, int flags);

  std::string name_;
  base::ForkPrivateFd fd_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace ffdl::shm
