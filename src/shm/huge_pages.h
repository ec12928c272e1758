#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shm/segment.h"

// Whether huge pages map a segment, and what the system allows. A segment asks for them always.
namespace ffdl::shm {

// Bytes of the mapping [begin, end) that huge pages map, by the text of /proc/self/smaps.
uint64_t huge_mapped_bytes(std::string_view smaps, uint64_t begin, uint64_t end);

// The chosen word of a text like "always [madvise] never"; empty when there is none.
std::string_view chosen_word(std::string_view text);

// The option huge= of the tmpfs that is mounted at `folder`, by the text of /proc/self/mountinfo.
// "never", which is the default of tmpfs, when the option is not there.
std::string_view mounted_huge_option(std::string_view mountinfo, std::string_view folder);

struct HugePageGrant {
  bool possible = false;
  std::string note;
};

// What the texts of shmem_enabled and /proc/self/mountinfo mean for a segment.
HugePageGrant huge_page_grant(bool named, std::string_view shmem_enabled,
                              std::string_view mountinfo);

struct HugePages {
  uint64_t bytes = 0;
  std::string note;
};

// Of this process's mapping, now. Reads /proc/self/smaps, whose cost grows with all that the
// process has mapped, only where there can be huge pages.
HugePages read_huge_pages(const Segment& segment);

}  // namespace ffdl::shm
