#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "ffdl/status.h"

namespace ffdl::data {

// One file of a tar archive (POSIX ustar, with the long names of GNU and of pax).
struct TarMember {
  uint64_t begin = 0;  // offset of its first header
  uint64_t data = 0;   // offset of its bytes
  uint64_t bytes = 0;
  uint64_t end = 0;  // offset of the next member
  std::string path{};
  bool is_file = true;  // false: a folder
};

// Returns up to `bytes` of the archive from `offset`, fewer only at its end. The span is valid
// until the next call.
using ReadTar = std::function<Result<std::span<const std::byte>>(uint64_t offset, size_t bytes)>;

// Reads the member whose first header is at `offset`. Returns nothing at the end of the archive. An
// archive without that end was cut short. The caller checks that the member's data are complete.
// Errors: kCorrupt ("<what> at byte <where>"), kUnimplemented (links, devices, sparse files),
//         those of `read`.
Result<std::optional<TarMember>> read_tar_member(uint64_t offset, const ReadTar& read);

// The parts of a path by the rule of WebDataset: "a/b.c.d" is the key "a/b" and the name "c.d".
struct TarName {
  std::string_view key;
  std::string_view name;
};
TarName split_tar_path(std::string_view path);

}  // namespace ffdl::data
