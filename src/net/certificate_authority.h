#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::net {

// A certificate and its private key, as PEM.
struct Certificate {
  std::string certificate{};
  std::string key{};
};

// Signs the certificates of one job. Its key is computed from a secret, so that all processes with
// the secret have the same authority, and no private key is ever sent. A certificate lets its
// reader test guesses of the secret, so the secret must be random: 32 bytes.
// Threads: one at a time.
class CertificateAuthority {
 public:
  // `purpose` separates authorities of the same secret. Errors: kUnavailable (OpenSSL failed).
  static Result<CertificateAuthority> of(std::string_view secret, std::string_view purpose);
  ~CertificateAuthority();
  CertificateAuthority(CertificateAuthority&& other) noexcept;
  CertificateAuthority& operator=(CertificateAuthority&&) = delete;

  // Returns the authority's own certificate, as PEM.
  const std::string& certificate() const;
  // Makes a new key and its certificate. With addresses it is one of a server at these IP
  // addresses, which may also act as a client; without any, one of a client. Errors: kUnavailable.
  Result<Certificate> issue(const std::string& name, const std::vector<std::string>& addresses);

 private:
  struct Impl;
  explicit CertificateAuthority(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl::net
