#include "net/base64.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"

namespace ffdl::net {
namespace {

constexpr size_t kBytesMax = size_t{1} << 30;  // its encoded size fits an int

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  FFDL_CHECK(bytes.size() <= kBytesMax, "the caller's limit is lower");
  // OpenSSL ends the text with a zero.
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes_of(bytes),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > kBytesMax) return std::nullopt;
  if (text.empty()) return "";
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const auto is_digit = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
  };
  // OpenSSL skips spaces, and reads padding in the middle as zeros.
  if (!std::all_of(text.begin(), text.end() - static_cast<ptrdiff_t>(padding), is_digit)) {
    return std::nullopt;
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), bytes_of(text),
                      static_cast<int>(text.size())) < 0) {
    return std::nullopt;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace ffdl::net
