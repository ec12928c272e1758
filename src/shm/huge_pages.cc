#include "shm/huge_pages.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

namespace ffdl::shm {
namespace {

constexpr const char* kShmemEnabled = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Cuts the text before the next `separator` off `rest`, together with the separator.
std::string_view take_until(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view piece = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return piece;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  while (!line.empty()) {
    const std::string_view word = take_until(line, ' ');
    if (!word.empty()) found.push_back(word);
  }
  return found;
}

std::optional<uint64_t> number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns a value if this line of smaps begins a mapping ("7f00-7fff rw-s ..."). The value is true
// if the mapping is inside [begin, end).
std::optional<bool> begins_mapping(std::string_view line, uint64_t begin, uint64_t end) {
  std::string_view range = take_until(line, ' ');
  const std::optional<uint64_t> first = number(take_until(range, '-'), 16);
  const std::optional<uint64_t> last = number(range, 16);
  if (!first || !last) return std::nullopt;
  return begin <= *first && *last <= end;
}

}  // namespace

uint64_t huge_mapped_bytes(std::string_view smaps, uint64_t begin, uint64_t end) {
  constexpr std::string_view kField = "ShmemPmdMapped:";
  uint64_t kib = 0;
  bool ours = false;
  while (!smaps.empty()) {
    const std::string_view line = take_until(smaps, '\n');
    if (line.starts_with(kField)) {
      const std::vector<std::string_view> field = words(line.substr(kField.size()));
      if (ours && !field.empty()) kib += number(field[0], 10).value_or(0);
    } else if (const std::optional<bool> inside = begins_mapping(line, begin, end)) {
      ours = *inside;
    }
  }
  return kib * 1024;
}

std::string_view chosen_word(std::string_view text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  return text.substr(open + 1, close - open - 1);
}

std::string_view mounted_huge_option(std::string_view mountinfo, std::string_view folder) {
  constexpr std::string_view kOption = "huge=";
  std::string_view huge = "never";
  while (!mountinfo.empty()) {
    // Fields: number, parent, device, root, mount point, ... and, last, the options of the file
    // system.
    const std::vector<std::string_view> fields = words(take_until(mountinfo, '\n'));
    if (fields.size() < 10 || fields[4] != folder) continue;
    huge = "never";  // a later mount covers an earlier one
    std::string_view options = fields.back();
    while (!options.empty()) {
      const std::string_view option = take_until(options, ',');
      if (option.starts_with(kOption)) huge = option.substr(kOption.size());
    }
  }
  return huge;
}

HugePageGrant huge_page_grant(bool named, std::string_view shmem_enabled,
                              std::string_view mountinfo) {
  const std::string_view enabled = chosen_word(shmem_enabled);
  if (enabled.empty()) return {false, "the kernel has no huge pages for shared memory"};
  // "deny" and "force" apply to all shared memory. Otherwise this file decides about memory without
  // a name, and the mount options about files.
  if (!named || enabled == "deny" || enabled == "force") {
    const bool possible = enabled != "never" && enabled != "deny";
    return {possible, fmt::format("{} is '{}'{}", kShmemEnabled, enabled,
                                  possible ? "" : "; 'advise' would grant them")};
  }
  const std::string_view option = mounted_huge_option(mountinfo, kSegmentFolder);
  if (option != "never") return {true, fmt::format("{} has huge={}", kSegmentFolder, option)};
  return {false,
          fmt::format("{0} has huge=never; mount -o remount,huge=advise {0} would grant them",
                      kSegmentFolder)};
}

HugePages read_huge_pages(const Segment& segment) {
  HugePageGrant grant = huge_page_grant(!segment.name().empty(), read_text(kShmemEnabled),
                                        read_text("/proc/self/mountinfo"));
  HugePages pages{.note = std::move(grant.note)};
  if (grant.possible) {
    const auto begin = reinterpret_cast<uint64_t>(segment.data());
    pages.bytes =
        huge_mapped_bytes(read_text("/proc/self/smaps"), begin, begin + segment.bytes() + 4095);
  }
  return pages;
}

}  // namespace ffdl::shm
