// Reads arbitrary bytes as the log of a store. They are refused as corrupt, or make a store.
#include <string_view>

#include "base/check.h"
#include "net/frame.h"
#include "store/tcp/log_file.h"
#include "store/tcp/service.h"

using ffdl::store::LogFile;
using ffdl::store::Service;

namespace {

ffdl::Status replay(Service& service, std::string_view bytes) {
  ffdl::wire::Record record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return {};
  return service.apply(record, ffdl::Time()).status();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Service service;
  const auto whole =
      LogFile::read(bytes, [&](std::string_view record) { return replay(service, record); });
  FFDL_CHECK(!whole.ok() || *whole <= size, "no more than there is");
  FFDL_CHECK(whole.ok() || whole.status().code() == ffdl::StatusCode::kCorrupt,
             "the only thing wrong with it");
  // The checksums stop most bytes, so records are also read without them.
  ffdl::net::FrameReader frames(size);
  frames.feed(bytes);
  Service other;
  for (auto frame = frames.next(); frame.ok() && frame->has_value(); frame = frames.next()) {
    if (!replay(other, **frame).ok()) break;
  }
  static_cast<void>(other.snapshot());
  return 0;
}
