#include "data/formats/digest.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::data {
namespace {

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Uses the values of hashlib and the package xxhash for b"abc".
TEST(Digest, IsPythons) {
  const struct {
    const char* algorithm;
    const char* hex;
  } cases[] = {
      {"md5", "900150983cd24fb0d6963f7d28e17f72"},
      {"sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"},
      {"sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"sha3_256", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"},
      {"blake2s", "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"},
      {"xxh32", "32d153ff"},
      {"xxh64", "44bc2cf5ad770999"},
      {"xxh3_64", "78af5f94892f3950"},
      {"xxh3_128", "06b05ab6733a618578af5f94892f3950"},
  };
  for (const auto& [algorithm, hex] : cases) {
    ASSERT_TRUE(is_digest(algorithm)) << algorithm;
    EXPECT_EQ(digest_of(algorithm, bytes_in("abc")), hex) << algorithm;
  }
  EXPECT_EQ(digest_of("xxh128", bytes_in("abc")), digest_of("xxh3_128", bytes_in("abc")));
  for (const char* unknown : {"shake_128", "crc32", "", "sha", "md5/"}) {
    EXPECT_FALSE(is_digest(unknown)) << unknown;
  }
}

TEST(Digest, OfAFileIsThatOfItsBytes) {
  const TempFolder folder;
  const std::string text(1'000'000, 'x');
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::open(folder.write("file", text)));
  const Digest digests[] = {{"xxh64", digest_of("xxh64", bytes_in(text))},
                            {"sha1", digest_of("sha1", bytes_in(text))}};
  EXPECT_OK(check_digests(*file, digests));
  EXPECT_OK(check_digests("it", bytes_in(text), digests));
  EXPECT_FAILS(check_digests("it", bytes_in(text).subspan(1), digests), StatusCode::kCorrupt,
               "read shard 'it': its xxh64 is");
  EXPECT_FAILS(check_digests(*file, std::vector<Digest>{digests[0], {"sha1", "00"}}),
               StatusCode::kCorrupt, ", and 00");
  EXPECT_OK(check_digests(*file, {}));
}

}  // namespace
}  // namespace ffdl::data
