#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ffdl/status.h"
#include "net/byte_stream.h"

// Encrypts a connection between two sides that share a key: TLS 1.3 with an external pre-shared key
// and a fresh Diffie-Hellman exchange (psk_dhe_ke), TLS_AES_128_GCM_SHA256, no certificates. Only a
// side that has the key completes the handshake. A key that becomes known later does not open what
// was recorded.
namespace ffdl::net {

inline constexpr size_t kTlsKeyBytes = 32;

class TlsStream : public ByteStream {
 public:
  enum class Side { kClient, kServer };

  // The caller owns the descriptor, which does not block and stays open for as long as the stream
  // exists. `key` has kTlsKeyBytes; `identity` names it and is sent in the clear.
  // Errors: kExhausted (no memory).
  static Result<std::unique_ptr<TlsStream>> make(int fd, Side side, std::string_view key,
                                                 std::string_view identity);

  // Returns true when both sides have proved the key, and false if the other side has to send more.
  // read() and write() follow. Errors: kPeerLost (another key, no TLS, or the end).
  virtual Result<bool> handshake() = 0;
};

}  // namespace ffdl::net
