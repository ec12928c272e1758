#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace training {

// A message of the server or a learner to their supervisor: one JSON line.
struct Message {
  enum class Kind { kReady, kProgress, kFailed };
  Kind kind = Kind::kReady;
  uint64_t position = 0;  // kProgress: samples of its partition that the learner has committed
  float loss = 0;         // kProgress: mean over the mini-batches since the last line
  uint64_t bytes = 0;     // kProgress: to and from the server since the last line
  std::string reason{};   // kFailed: a restart would fail in the same way
};

std::string to_line(const Message& message);

// Returns the message, or nothing if the line is not one of ours, such as a line that a kill cut
// short.
std::optional<Message> parse_message(std::string_view line);

// Writes the line to standard output at once.
void send(const Message& message);

}  // namespace training
