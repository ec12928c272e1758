#include "data/formats/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

using HashedBytes = std::span<const std::byte>;

std::string hex_of(std::span<const unsigned char> bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

// Hashes bytes that arrive in pieces.
class Hasher {
 public:
  virtual ~Hasher() = default;
  virtual void add(HashedBytes bytes) = 0;
  virtual std::string hex() = 0;
};

class OpensslHasher final : public Hasher {
 public:
  explicit OpensslHasher(const EVP_MD& algorithm) : context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(context_.get(), &algorithm, nullptr);
  }
  void add(HashedBytes bytes) override {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::string hex() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), bytes.data(), &size);
    return hex_of(std::span(bytes).first(size));
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  const std::unique_ptr<EVP_MD_CTX, Free> context_;
};

enum class XxhKind { k32, k64, k3_64, k3_128 };

class XxhHasher final : public Hasher {
 public:
  explicit XxhHasher(XxhKind kind) : kind_(kind) {
    XXH32_reset(&state32_, 0);
    XXH64_reset(&state64_, 0);
    if (kind_ == XxhKind::k3_64) XXH3_64bits_reset(&state3_);
    if (kind_ == XxhKind::k3_128) XXH3_128bits_reset(&state3_);
  }
  void add(HashedBytes bytes) override {
    if (kind_ == XxhKind::k32) XXH32_update(&state32_, bytes.data(), bytes.size());
    if (kind_ == XxhKind::k64) XXH64_update(&state64_, bytes.data(), bytes.size());
    if (kind_ == XxhKind::k3_64) XXH3_64bits_update(&state3_, bytes.data(), bytes.size());
    if (kind_ == XxhKind::k3_128) XXH3_128bits_update(&state3_, bytes.data(), bytes.size());
  }
  std::string hex() override {
    if (kind_ == XxhKind::k32) return fmt::format("{:08x}", XXH32_digest(&state32_));
    if (kind_ == XxhKind::k64) return fmt::format("{:016x}", XXH64_digest(&state64_));
    if (kind_ == XxhKind::k3_64) return fmt::format("{:016x}", XXH3_64bits_digest(&state3_));
    const XXH128_hash_t hash = XXH3_128bits_digest(&state3_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  const XxhKind kind_;
  XXH32_state_t state32_{};
  XXH64_state_t state64_{};
  XXH3_state_t state3_{};
};

std::unique_ptr<Hasher> make_hasher(std::string_view algorithm) {
  if (algorithm == "xxh32") return std::make_unique<XxhHasher>(XxhKind::k32);
  if (algorithm == "xxh64") return std::make_unique<XxhHasher>(XxhKind::k64);
  if (algorithm == "xxh3_64") return std::make_unique<XxhHasher>(XxhKind::k3_64);
  if (algorithm == "xxh3_128" || algorithm == "xxh128") {
    return std::make_unique<XxhHasher>(XxhKind::k3_128);
  }
  std::string name(algorithm);
  if (name == "blake2b") name = "blake2b512";
  if (name == "blake2s") name = "blake2s256";
  if (name.starts_with("sha512_") || name.starts_with("sha3_")) {
    std::replace(name.begin(), name.end(), '_', '-');
  }
  struct Free {
    void operator()(EVP_MD* algorithm) const { EVP_MD_free(algorithm); }
  };
  const std::unique_ptr<EVP_MD, Free> known(EVP_MD_fetch(nullptr, name.c_str(), nullptr));
  // Rejects algorithms of variable length: their names fix no length.
  if (known == nullptr || (EVP_MD_get_flags(known.get()) & EVP_MD_FLAG_XOF) != 0) return nullptr;
  return std::make_unique<OpensslHasher>(*known);
}

using EachPiece = std::function<Status(const std::function<void(HashedBytes)>& add)>;

Status check_pieces(const std::string& path, std::span<const Digest> digests,
                    const EachPiece& each_piece) {
  std::vector<std::unique_ptr<Hasher>> hashers;
  for (const Digest& digest : digests) {
    hashers.push_back(make_hasher(digest.algorithm));
    FFDL_CHECK(hashers.back() != nullptr, "an index with another hash was refused");
  }
  if (hashers.empty()) return {};
  FFDL_RETURN_IF_ERROR(each_piece([&](HashedBytes piece) {
    for (const auto& hasher : hashers) hasher->add(piece);
  }));
  for (size_t i = 0; i < hashers.size(); ++i) {
    const std::string found = hashers[i]->hex();
    if (found == digests[i].hex) continue;
    return base::make_error(StatusCode::kCorrupt,
                            "read shard '{}': its {} is {}, and {} in the index; replace the file, "
                            "or leave its samples out with FileOptions::skip_corrupt",
                            path, digests[i].algorithm, found, digests[i].hex);
  }
  return {};
}

}  // namespace

bool is_digest(std::string_view algorithm) { return make_hasher(algorithm) != nullptr; }

std::string digest_of(std::string_view algorithm, std::span<const std::byte> bytes) {
  const auto hasher = make_hasher(algorithm);
  FFDL_CHECK(hasher != nullptr, "the algorithm is one that is_digest()");
  hasher->add(bytes);
  return hasher->hex();
}

Status check_digests(const std::string& path, std::span<const std::byte> bytes,
                     std::span<const Digest> digests) {
  return check_pieces(path, digests, [&](const auto& add) {
    add(bytes);
    return Status();
  });
}

Status check_digests(const InputFile& file, std::span<const Digest> digests) {
  return check_pieces(file.path(), digests, [&](const auto& add) -> Status {
    FileScanner scanner(file);
    for (uint64_t at = 0; at < file.size();) {
      FFDL_ASSIGN_OR_RETURN(const auto piece, scanner.at(at, base::kScanBytes));
      add(piece);
      at += piece.size();
    }
    return {};
  });
}

}  // namespace ffdl::data
