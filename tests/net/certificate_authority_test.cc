#include "net/certificate_authority.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

using Parsed = std::unique_ptr<X509, decltype(&X509_free)>;

Parsed parse(const std::string& pem) {
  BIO* const memory = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Parsed parsed(PEM_read_bio_X509(memory, nullptr, nullptr, nullptr), &X509_free);
  BIO_free(memory);
  return parsed;
}

// Returns whether the authority has signed the certificate, for that use.
bool is_good(const std::string& authority, const std::string& certificate, int purpose) {
  const Parsed root = parse(authority), leaf = parse(certificate);
  X509_STORE* const roots = X509_STORE_new();
  X509_STORE_add_cert(roots, root.get());
  X509_STORE_CTX* const check = X509_STORE_CTX_new();
  X509_STORE_CTX_init(check, roots, leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(check, purpose);
  const bool good = X509_verify_cert(check) == 1;
  X509_STORE_CTX_free(check);
  X509_STORE_free(roots);
  return good;
}

TEST(CertificateAuthority, AllWithTheSecretHaveTheSame) {
  ASSERT_OK_AND_ASSIGN(auto here, CertificateAuthority::of("secret", "purpose"));
  ASSERT_OK_AND_ASSIGN(auto there, CertificateAuthority::of("secret", "purpose"));
  ASSERT_OK_AND_ASSIGN(const Certificate client, there.issue("client", {}));
  EXPECT_TRUE(is_good(here.certificate(), client.certificate, X509_PURPOSE_SSL_CLIENT));
  for (const auto& [secret, purpose] : {std::pair("other", "purpose"), {"secret", "other"}}) {
    ASSERT_OK_AND_ASSIGN(auto other, CertificateAuthority::of(secret, purpose));
    EXPECT_FALSE(is_good(other.certificate(), client.certificate, X509_PURPOSE_SSL_CLIENT));
  }
}

TEST(CertificateAuthority, AClientIsNoServer) {
  ASSERT_OK_AND_ASSIGN(auto authority, CertificateAuthority::of("secret", "purpose"));
  ASSERT_OK_AND_ASSIGN(const Certificate client, authority.issue("client", {}));
  ASSERT_OK_AND_ASSIGN(const Certificate server, authority.issue("server", {"10.0.0.7", "::1"}));
  const std::string& root = authority.certificate();
  EXPECT_FALSE(is_good(root, client.certificate, X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(is_good(root, server.certificate, X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(is_good(root, server.certificate, X509_PURPOSE_SSL_CLIENT));
  const Parsed parsed = parse(server.certificate);
  EXPECT_EQ(X509_check_ip_asc(parsed.get(), "10.0.0.7", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(parsed.get(), "::1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(parsed.get(), "10.0.0.8", 0), 0);
}

TEST(CertificateAuthority, NoTwoKeysAreEqualAndNoneSignsOthers) {
  ASSERT_OK_AND_ASSIGN(auto authority, CertificateAuthority::of("secret", "purpose"));
  ASSERT_OK_AND_ASSIGN(const Certificate one, authority.issue("client", {}));
  ASSERT_OK_AND_ASSIGN(const Certificate two, authority.issue("client", {}));
  EXPECT_NE(one.key, two.key);
  EXPECT_EQ(X509_check_ca(parse(one.certificate).get()), 0);
  EXPECT_NE(one.key.find("BEGIN PRIVATE KEY"), std::string::npos);
}

TEST(CertificateAuthority, AnAddressThatIsNoneIsRefused) {
  ASSERT_OK_AND_ASSIGN(auto authority, CertificateAuthority::of("secret", "purpose"));
  EXPECT_FAILS(authority.issue("server", {"node7"}), StatusCode::kUnavailable, "'server'");
}

}  // namespace
}  // namespace ffdl::net
