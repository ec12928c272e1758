// Reads arbitrary bytes as the requests of a client to a store's server: frames, messages, and
// their calls. After any of them the store can be saved and read again.
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "net/frame.h"
#include "store/tcp/service.h"

using ffdl::store::Service;
using ffdl::wire::FromClient;
using ffdl::wire::Record;

namespace {

void call(Service& service, const ffdl::wire::Request& request) {
  const auto now = ffdl::Time(std::chrono::seconds(1));
  if (!Service::changes_the_store(request)) {
    static_cast<void>(service.look(request, now));
    return;
  }
  const bool fails = service.failure_of(request).has_value();
  const auto before = service.revision();
  Record record;
  record.mutable_called()->set_client(1);
  *record.mutable_called()->mutable_request() = request;
  const auto reply = service.apply(record, now);
  FFDL_CHECK(reply.ok(), "every call is a record that can be applied");
  FFDL_CHECK(!fails || (reply->code() != 0 && service.revision() == before), "it was foretold");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ffdl::net::FrameReader frames(ffdl::base::kStoreRequestMax);
  Service service;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t half = size / 2;
  for (const std::string_view part : {bytes.substr(0, half), bytes.substr(half)}) {
    frames.feed(part);
    for (auto frame = frames.next(); frame.ok() && frame->has_value(); frame = frames.next()) {
      FromClient message;
      const auto length = static_cast<int>((*frame)->size());
      if (!message.ParseFromArray((*frame)->data(), length)) continue;
      if (message.has_request()) call(service, message.request());
    }
  }
  Service again;
  FFDL_CHECK(again.apply(service.snapshot(), ffdl::Time()).ok(), "it was just written");
  FFDL_CHECK(again.revision() == service.revision(), "it is the same store");
  return 0;
}
