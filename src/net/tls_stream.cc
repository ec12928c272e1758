#include "net/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/errors.h"

namespace ffdl::net {
namespace {

// Plain bytes of one record.
constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
// Bytes that one system call may read: several records.
constexpr size_t kReadAheadBytes = size_t{128} << 10;
// A write of less than this is copied, so that a header and its message share a record.
constexpr size_t kSmallBytes = 4096;
constexpr std::array<unsigned char, 2> kAes128GcmSha256 = {0x13, 0x01};

template <auto kFree>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using Connected = std::unique_ptr<SSL, Freer<SSL_free>>;
using Method = std::unique_ptr<BIO_METHOD, Freer<BIO_meth_free>>;
using Secret = std::unique_ptr<SSL_SESSION, Freer<SSL_SESSION_free>>;

// The socket under OpenSSL. OpenSSL's own would raise SIGPIPE.
struct Wire {
  int fd = -1;
  int error = 0;  // of the last call that failed, 0 at the end of the stream
};

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int write_wire(BIO* bio, const char* data, int bytes) {
  auto* const wire = static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t sent =
      ::send(wire->fd, data, static_cast<size_t>(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<int>(sent);
  wire->error = errno;
  if (would_block(errno)) BIO_set_retry_write(bio);
  return -1;
}

int read_wire(BIO* bio, char* data, int bytes) {
  auto* const wire = static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(wire->fd, data, static_cast<size_t>(bytes), MSG_DONTWAIT);
  wire->error = got < 0 ? errno : 0;
  if (got < 0 && would_block(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long control_wire(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

class PskStream final : public TlsStream {
 public:
  PskStream(int fd, std::string_view key, std::string_view identity)
      : wire_{.fd = fd}, identity_(identity) {
    std::ranges::copy(key, key_.begin());
  }
  ~PskStream() override { OPENSSL_cleanse(key_.data(), key_.size()); }

  // Returns false without memory.
  bool open(Side side);

  Result<bool> handshake() override;
  Moved read(std::span<const iovec> to) override;
  Moved write(std::span<const iovec> from) override;
  void shut_down() override { ::shutdown(wire_.fd, SHUT_RDWR); }

 private:
  static PskStream& of(SSL* ssl) { return *static_cast<PskStream*>(SSL_get_app_data(ssl)); }
  static int use_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* bytes,
                     SSL_SESSION** session);
  static int find_key(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session);
  SSL_SESSION* session() const;
  // Explains a call that failed. No bytes and no end: it is to be repeated.
  Moved outcome_of(int result);

  Wire wire_;
  const std::string identity_;
  std::array<unsigned char, kTlsKeyBytes> key_{};
  Method method_;
  Context context_;
  Connected ssl_;
  std::array<std::byte, kRecordBytes> record_;  // of small parts
};

// Returns null without memory.
SSL_SESSION* PskStream::session() const {
  Secret made(SSL_SESSION_new());
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl_.get(), kAes128GcmSha256.data());
  FFDL_CHECK(cipher != nullptr, "AES-GCM is in every build of OpenSSL");
  if (made == nullptr || SSL_SESSION_set1_master_key(made.get(), key_.data(), key_.size()) != 1 ||
      SSL_SESSION_set_cipher(made.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return made.release();
}

int PskStream::use_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity,
                       size_t* bytes, SSL_SESSION** session) {
  const PskStream& stream = of(ssl);
  *session = stream.session();
  *identity = reinterpret_cast<const unsigned char*>(stream.identity_.data());
  *bytes = stream.identity_.size();
  return *session != nullptr ? 1 : 0;
}

int PskStream::find_key(SSL* ssl, const unsigned char* identity, size_t bytes,
                        SSL_SESSION** session) {
  const PskStream& stream = of(ssl);
  const bool is_known = bytes == stream.identity_.size() &&
                        std::memcmp(identity, stream.identity_.data(), bytes) == 0;
  *session = is_known ? stream.session() : nullptr;
  return !is_known || *session != nullptr ? 1 : 0;
}

bool PskStream::open(Side side) {
  const bool is_client = side == Side::kClient;
  method_.reset(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ffdl socket"));
  context_.reset(SSL_CTX_new(is_client ? TLS_client_method() : TLS_server_method()));
  if (method_ == nullptr || context_ == nullptr) return false;
  BIO_meth_set_write(method_.get(), write_wire);
  BIO_meth_set_read(method_.get(), read_wire);
  BIO_meth_set_ctrl(method_.get(), control_wire);
  SSL_CTX* const context = context_.get();
  const bool is_set = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                      SSL_CTX_set_num_tickets(context, 0) == 1;
  FFDL_CHECK(is_set, "TLS 1.3 is in every build of OpenSSL");
  // Without SSL_OP_ALLOW_NO_DHE_KEX a session always has a Diffie-Hellman exchange.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  if (is_client) {
    SSL_CTX_set_psk_use_session_callback(context, use_key);
  } else {
    SSL_CTX_set_psk_find_session_callback(context, find_key);
  }
  ssl_.reset(SSL_new(context));
  BIO* const bio = BIO_new(method_.get());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    return false;
  }
  BIO_set_data(bio, &wire_);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  if (is_client) {
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
  return true;
}

Moved PskStream::outcome_of(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
  if (error == SSL_ERROR_SYSCALL && wire_.error != 0) {
    return {.has_ended = true, .cause = base::errno_text(wire_.error)};
  }
  const unsigned long queued = ERR_peek_error();
  const bool is_end = error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SYSCALL ||
                      ERR_GET_REASON(queued) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (is_end || queued == 0) return {.has_ended = true, .cause = "it has closed its connection"};
  const char* const reason = ERR_reason_error_string(queued);
  return {.has_ended = true, .cause = fmt::format("TLS: {}", reason == nullptr ? "?" : reason)};
}

Result<bool> PskStream::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) {
    Moved outcome = outcome_of(result);
    ERR_clear_error();
    if (!outcome.has_ended) return false;
    return Status(StatusCode::kPeerLost, std::move(outcome.cause));
  }
  if (SSL_session_reused(ssl_.get()) == 1) return true;
  return Status(StatusCode::kPeerLost, "TLS: it has not proved the key");
}

// Each record is decrypted to its place.
Moved PskStream::read(std::span<const iovec> to) {
  uint64_t all = 0;
  for (const iovec& part : to) {
    for (size_t done = 0; done < part.iov_len;) {
      ERR_clear_error();
      size_t got = 0;
      const int result = SSL_read_ex(ssl_.get(), static_cast<std::byte*>(part.iov_base) + done,
                                     part.iov_len - done, &got);
      if (result != 1 && all > 0) {
        ERR_clear_error();
        return {.bytes = all};  // an end is returned by the next call
      }
      if (result != 1) {
        Moved outcome = outcome_of(result);
        ERR_clear_error();
        return outcome;
      }
      done += got;
      all += got;
    }
  }
  return {.bytes = all};
}

// Encrypts large parts from their place. OpenSSL keeps a record that the socket did not take, and
// requires the next call with the same bytes.
Moved PskStream::write(std::span<const iovec> from) {
  FFDL_CHECK(from.size() <= 2, "a header and its message");
  std::array<iovec, 2> parts{};
  std::ranges::copy(from, parts.begin());
  uint64_t all = 0;
  while (true) {
    size_t first = 0;
    while (first < parts.size() && parts[first].iov_len == 0) ++first;
    if (first == parts.size()) return {.bytes = all};
    const void* data = parts[first].iov_base;
    size_t bytes = std::min(parts[first].iov_len, kRecordBytes);
    const bool has_more = first + 1 < parts.size() && parts[first + 1].iov_len > 0;
    if (has_more && parts[first].iov_len < kSmallBytes) {
      const size_t more = std::min(parts[first + 1].iov_len, kRecordBytes - bytes);
      std::memcpy(record_.data(), data, bytes);
      std::memcpy(record_.data() + bytes, parts[first + 1].iov_base, more);
      data = record_.data();
      bytes += more;
    }
    ERR_clear_error();
    size_t sent = 0;
    const int result = SSL_write_ex(ssl_.get(), data, bytes, &sent);
    if (result != 1) {
      Moved outcome = outcome_of(result);
      ERR_clear_error();
      if (all > 0) return {.bytes = all};
      return outcome;
    }
    all += sent;
    for (iovec& part : parts) {
      const size_t taken = std::min(part.iov_len, sent);
      part = {static_cast<std::byte*>(part.iov_base) + taken, part.iov_len - taken};
      sent -= taken;
    }
  }
}

}  // namespace

Result<std::unique_ptr<TlsStream>> TlsStream::make(int fd, Side side, std::string_view key,
                                                   std::string_view identity) {
  FFDL_CHECK(key.size() == kTlsKeyBytes, "the key is an HMAC-SHA256");
  auto stream = std::make_unique<PskStream>(fd, key, identity);
  if (!stream->open(side)) {
    return base::make_error(StatusCode::kExhausted,
                            "encrypt a connection: OpenSSL has no memory; raise 'ulimit -v' or the "
                            "container's limit of memory");
  }
  return std::unique_ptr<TlsStream>(std::move(stream));
}

}  // namespace ffdl::net
