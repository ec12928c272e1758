#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/input_file.h"
#include "ffdl/status.h"

namespace ffdl::data {

// The hash of a file's bytes, from an index.
struct Digest {
  std::string algorithm{};  // Python's name: "sha1", "xxh64"
  std::string hex{};
};

// Reports whether the algorithm is known: those of hashlib and of xxhash are.
bool is_digest(std::string_view algorithm);

// Returns the digest in lower case. Requires is_digest(algorithm).
std::string digest_of(std::string_view algorithm, std::span<const std::byte> bytes);

// Checks that the bytes have all these digests. `path` names the file in the error.
// Errors: kCorrupt; those of reading the file.
Status check_digests(const std::string& path, std::span<const std::byte> bytes,
                     std::span<const Digest> digests);
// Checks the digests of a whole file. Blocks: for the disk.
Status check_digests(const InputFile& file, std::span<const Digest> digests);

}  // namespace ffdl::data
