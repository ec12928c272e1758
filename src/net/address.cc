#include "net/address.h"

#include <charconv>

#include "base/errors.h"
#include "net/asio.h"

namespace ffdl::net {

std::string Address::text() const {
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

bool Address::is_loopback() const {
  asio::error_code error;
  const asio::ip::address number = asio::ip::make_address(host, error);
  return error ? host == "localhost" : number.is_loopback();
}

Result<Address> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  Address address;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    host = {};  // without brackets it is ambiguous which colon separates the port
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (host.empty() || port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return base::invalid_argument(
        "read the address '{}': it is not host:port; write it like 127.0.0.1:2990 or [::1]:2990",
        text);
  }
  address.host = host;
  return address;
}

}  // namespace ffdl::net
