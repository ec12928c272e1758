#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shm/segment.h"

// Reports how much of a segment is mapped by huge pages, and what the system allows. A segment
// always requests them.
namespace ffdl::shm {

// Returns the bytes of the mapping [begin, end) that huge pages map, by the text of
// /proc/self/smaps.
uint64_t huge_mapped_bytes(std::string_view smaps, uint64_t begin, uint64_t end);

// Returns the chosen word of a text like "always [madvise] never". Empty: there is none.
std::string_view chosen_word(std::string_view text);

// Returns the option huge= of the tmpfs mounted at `folder`, by the text of /proc/self/mountinfo.
// Without the option it returns "never", the default of tmpfs.
std::string_view mounted_huge_option(std::string_view mountinfo, std::string_view folder);

struct HugePageGrant {
  bool possible = false;
  std::string note;
};

// Interprets the texts of shmem_enabled and /proc/self/mountinfo for a segment.
HugePageGrant huge_page_grant(bool named, std::string_view shmem_enabled,
                              std::string_view mountinfo);

struct HugePages {
  uint64_t bytes = 0;
  std::string note;
};

// Measures this process's mapping now. Reads /proc/self/smaps only if huge pages are possible. Its
// cost grows with everything that the process has mapped.
HugePages read_huge_pages(const Segment& segment);

}  // namespace ffdl::shm
