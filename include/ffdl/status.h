#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ffdl/export.h"

namespace ffdl {

// The reason of a failure. Each code exists because some callers handle it differently;
// docs/reference/errors.md explains how. In Python each code is an exception (ffdl.errors).
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,  // correct the call
  kNotFound,         // the named thing does not exist
  kConflict,         // lost a race, or the name is in use: read again, then decide
  kTimeout,          // the deadline passed; the effect is unknown
  kUnavailable,      // nothing happened; try again later, with backoff
  kExhausted,        // a limit is reached: wait, or use less
  kPeerLost,         // a member died during this call
  kWorldChanged,     // the caller's generation is old: use the new one
  kCancelled,        // stopped by the caller or the owner
  kCorrupt,          // stored or shared bytes fail their check
  kUnimplemented,    // this build lacks the back end; the message names the CMake option
  kInternal,         // a bug in ffdl: report it with the log
};

// Returns the name of a code without the 'k': "InvalidArgument".
FFDL_API std::string_view to_string(StatusCode code);

// The outcome of a call that can fail. Success is a null pointer, so it costs nothing. A failure
// has a code to branch on, and a message of the form
//   <doing> '<which>': <observed>; <what to try>
// The message may contain another process's text, such as a key, a name or an answer. Control
// characters are therefore escaped as by printable() (diagnose.h).
// Threads: a value; while a thread changes an object, no other thread may use it.
class [[nodiscard]] FFDL_API Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return failure_ == nullptr; }
  StatusCode code() const { return failure_ ? failure_->code : StatusCode::kOk; }
  std::string_view message() const { return failure_ ? std::string_view(failure_->message) : ""; }

  // Returns the failure with "<doing>: " before its message; an ok Status stays ok.
  Status with_context(std::string_view doing) &&;

  // Returns "Timeout: attach 'demo': ..." or "Ok".
  std::string to_string() const;

 private:
  struct Failure {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Failure> failure_;
};

// A value of type T, or the Status (never ok) that explains why there is no value.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "a Result was made of an ok Status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  // Requires ok(). Otherwise the behaviour is undefined, as with std::optional.
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace ffdl

#define FFDL_CONCAT_INNER(a, b) a##b
#define FFDL_CONCAT(a, b) FFDL_CONCAT_INNER(a, b)

// Returns the Status of `expression` from the enclosing function, unless that Status is ok.
#define FFDL_RETURN_IF_ERROR(expression)                                \
  do {                                                                  \
    if (::ffdl::Status ffdl_status = (expression); !ffdl_status.ok()) { \
      return ffdl_status;                                               \
    }                                                                   \
  } while (false)

// `FFDL_ASSIGN_OR_RETURN(auto x, f());` declares x from a Result, or returns its Status.
#define FFDL_ASSIGN_OR_RETURN(declaration, expression) \
  FFDL_ASSIGN_OR_RETURN_INNER(FFDL_CONCAT(ffdl_result_, __LINE__), declaration, expression)
#define FFDL_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                        \
  if (!result.ok()) return std::move(result).status();               \
  declaration = std::move(result).value()
