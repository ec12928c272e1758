#include "ffdl/status.h"

#include <array>

#include "base/printable.h"

namespace ffdl {

std::string_view to_string(StatusCode code) {
  static constexpr std::array<std::string_view, 13> kNames = {
      "Ok",          "InvalidArgument", "NotFound", "Conflict",     "Timeout",
      "Unavailable", "Exhausted",       "PeerLost", "WorldChanged", "Cancelled",
      "Corrupt",     "Unimplemented",   "Internal"};
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "Unknown";
}

// Escapes the message, which may contain another process's text. So that text cannot reach a
// terminal, a log or an exception unescaped.
Status::Status(StatusCode code, std::string message)
    : failure_(code == StatusCode::kOk
                   ? nullptr
                   : std::make_unique<Failure>(Failure{code, base::printable(message)})) {}

Status::Status(const Status& other)
    : failure_(other.failure_ ? std::make_unique<Failure>(*other.failure_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) {
    failure_ = other.failure_ ? std::make_unique<Failure>(*other.failure_) : nullptr;
  }
  return *this;
}

Status Status::with_context(std::string_view doing) && {
  if (failure_) failure_->message = base::printable(doing) + ": " + failure_->message;
  return std::move(*this);
}

std::string Status::to_string() const {
  if (ok()) return "Ok";
  return std::string(ffdl::to_string(code())) + ": " + std::string(message());
}

}  // namespace ffdl
