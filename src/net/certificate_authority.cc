#include "net/certificate_authority.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <utility>

#include "base/errors.h"
#include "net/challenge.h"

namespace ffdl::net {
namespace {

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using X509Ptr = std::unique_ptr<X509, void (*)(X509*)>;

// A certificate is valid from long ago, so that a wrong clock does no harm, and longer than a job.
constexpr long kYear = 365L * 24 * 60 * 60;
constexpr long kValidSince = -10 * kYear;
constexpr long kValidUntil = 10 * kYear;
constexpr const char* kAuthorityName = "ffdl";

Status failed(std::string_view doing) {
  return base::make_error(StatusCode::kUnavailable, "{}: OpenSSL failed to; try again later",
                          doing);
}

Key key_of(std::string_view bytes) {
  return {EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       bytes.size()),
          &EVP_PKEY_free};
}

bool add(X509& certificate, X509& issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), &X509_EXTENSION_free);
  return extension != nullptr && X509_add_ext(&certificate, extension.get(), -1) == 1;
}

bool set_serial(X509& certificate) {
  uint64_t number = 0;
  return RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) == 1 &&
         ASN1_INTEGER_set_uint64(X509_get_serialNumber(&certificate), number >> 1) == 1;
}

bool set_name(X509_NAME* name, const std::string& text) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

// Makes a certificate without extensions and signature. Returns null after a failure.
X509Ptr begin_certificate(const std::string& name, EVP_PKEY& key) {
  X509Ptr made(X509_new(), &X509_free);
  const bool is_made = made != nullptr && X509_set_version(made.get(), 2) == 1 &&
                       set_serial(*made) && set_name(X509_get_subject_name(made.get()), name) &&
                       X509_gmtime_adj(X509_getm_notBefore(made.get()), kValidSince) != nullptr &&
                       X509_gmtime_adj(X509_getm_notAfter(made.get()), kValidUntil) != nullptr &&
                       X509_set_pubkey(made.get(), &key) == 1;
  return is_made ? std::move(made) : X509Ptr(nullptr, &X509_free);
}

template <class Write>
std::string as_pem(const Write& write) {
  const std::unique_ptr<BIO, void (*)(BIO*)> memory(BIO_new(BIO_s_mem()), &BIO_free_all);
  if (memory == nullptr || write(memory.get()) != 1) return {};
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}

std::string pem_of(X509& certificate) {
  return as_pem([&](BIO* to) { return PEM_write_bio_X509(to, &certificate); });
}

std::string pem_of(EVP_PKEY& key) {
  return as_pem([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, &key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string list_of(const std::vector<std::string>& addresses) {
  std::string list;
  for (const std::string& address : addresses) {
    list += (list.empty() ? "IP:" : ",IP:") + address;
  }
  return list;
}

}  // namespace

struct CertificateAuthority::Impl {
  Key key{nullptr, &EVP_PKEY_free};
  X509Ptr certificate{nullptr, &X509_free};
  std::string pem;
};

CertificateAuthority::CertificateAuthority(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CertificateAuthority::CertificateAuthority(CertificateAuthority&&) noexcept = default;
CertificateAuthority::~CertificateAuthority() = default;

const std::string& CertificateAuthority::certificate() const { return impl_->pem; }

Result<CertificateAuthority> CertificateAuthority::of(std::string_view secret,
                                                      std::string_view purpose) {
  const std::string seed = mac_of(secret, {"ffdl certificate authority", purpose});
  auto made = std::make_unique<Impl>();
  made->key = key_of(seed);
  if (made->key == nullptr) return failed("make a certificate authority");
  made->certificate = begin_certificate(kAuthorityName, *made->key);
  if (made->certificate == nullptr) return failed("make a certificate authority");
  X509& own = *made->certificate;
  const bool is_made = X509_set_issuer_name(&own, X509_get_subject_name(&own)) == 1 &&
                       add(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                       add(own, own, NID_key_usage, "critical,keyCertSign") &&
                       add(own, own, NID_subject_key_identifier, "hash") &&
                       X509_sign(&own, made->key.get(), nullptr) > 0;
  made->pem = is_made ? pem_of(own) : "";
  if (made->pem.empty()) return failed("make a certificate authority");
  return CertificateAuthority(std::move(made));
}

Result<Certificate> CertificateAuthority::issue(const std::string& name,
                                                const std::vector<std::string>& addresses) {
  const std::string doing = fmt::format("make a certificate of '{}'", name);
  FFDL_ASSIGN_OR_RETURN(const std::string bytes, make_nonce());  // as many as a key has
  const Key key = key_of(bytes);
  if (key == nullptr) return failed(doing);
  const X509Ptr made = begin_certificate(name, *key);
  if (made == nullptr) return failed(doing);
  X509& issuer = *impl_->certificate;
  const bool is_server = !addresses.empty();
  const bool is_made =
      X509_set_issuer_name(made.get(), X509_get_subject_name(&issuer)) == 1 &&
      add(*made, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
      add(*made, issuer, NID_key_usage, "critical,digitalSignature") &&
      add(*made, issuer, NID_ext_key_usage, is_server ? "serverAuth,clientAuth" : "clientAuth") &&
      add(*made, issuer, NID_authority_key_identifier, "keyid:always") &&
      (!is_server || add(*made, issuer, NID_subject_alt_name, list_of(addresses))) &&
      X509_sign(made.get(), impl_->key.get(), nullptr) > 0;
  Certificate issued{is_made ? pem_of(*made) : "", pem_of(*key)};
  if (issued.certificate.empty() || issued.key.empty()) return failed(doing);
  return issued;
}

}  // namespace ffdl::net
