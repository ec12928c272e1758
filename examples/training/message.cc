#include "training/message.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace training {
namespace {

constexpr std::array<const char*, 3> kKindNames{"ready", "progress", "failed"};

}  // namespace

std::string to_line(const Message& message) {
  const nlohmann::json object{{"event", kKindNames.at(static_cast<std::size_t>(message.kind))},
                              {"position", message.position},
                              {"loss", message.loss},
                              {"bytes", message.bytes},
                              {"reason", message.reason}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Message> parse_message(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  const auto event = object.value("event", "");
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (event != kKindNames[i]) continue;
    const auto& loss = object["loss"];
    return Message{.kind = static_cast<Message::Kind>(i),
                   .position = object.value("position", uint64_t{0}),
                   .loss = loss.is_number() ? loss.get<float>() : NAN,
                   .bytes = object.value("bytes", uint64_t{0}),
                   .reason = object.value("reason", "")};
  }
  return std::nullopt;
}

void send(const Message& message) {
  std::puts(to_line(message).c_str());
  std::fflush(stdout);
}

}  // namespace training
