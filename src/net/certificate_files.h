#pragma once

// Names the files in a folder of certificates, as PEM.
namespace ffdl::net {

inline constexpr const char* kAuthorityFile = "ca.pem";  // the certificate that signs the others
inline constexpr const char* kClientFile = "client.pem";
inline constexpr const char* kClientKeyFile = "client-key.pem";
inline constexpr const char* kServerFile = "server.pem";
inline constexpr const char* kServerKeyFile = "server-key.pem";

}  // namespace ffdl::net
