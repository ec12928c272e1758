#include "net/challenge.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <limits>
#include <memory>

#include "base/check.h"
#include "base/errors.h"
#include "net/frame.h"

namespace ffdl::net {

Result<std::string> make_nonce() {
  std::array<unsigned char, kNonceBytes> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) {
    return base::make_error(StatusCode::kUnavailable,
                            "make random bytes: the kernel or OpenSSL failed to; try again later");
  }
  return std::string(bytes.begin(), bytes.end());
}

std::string mac_of(std::string_view secret, std::initializer_list<std::string_view> parts) {
  FFDL_CHECK(secret.size() <= size_t{std::numeric_limits<int>::max()},
             "the options limit the secret");
  std::string text;
  for (const std::string_view part : parts) append_frame(text, part);
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  // An empty key must not be a null pointer, which would mean "the key of the last time".
  const char* key = secret.empty() ? "" : secret.data();
  const auto* done =
      HMAC(EVP_sha256(), key, static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(), &size);
  // OpenSSL has no memory. The program's handler ends it, as it does when C++ has none.
  const std::new_handler handler = std::get_new_handler();
  if (done == nullptr && handler != nullptr) handler();
  FFDL_CHECK(done != nullptr, "SHA-256 is in every build of OpenSSL, and there is memory for it");
  return std::string(bytes.begin(), bytes.begin() + size);
}

bool same_mac(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ffdl::net
