#include "store/state_file.h"

#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"

namespace ffdl::store {
namespace {

constexpr std::string_view kMagic = "ffdlsto1";

class Writer {
 public:
  void number(uint64_t value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof bytes);
  }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }
  std::string finish() && {
    number(XXH3_64bits(out_.data(), out_.size()));
    return std::move(out_);
  }

 private:
  std::string out_{kMagic};
};

// After the first number or text that is not there whole, all others are zero and empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    if (rest_.size() < sizeof value) return fail();
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    if (size > rest_.size()) {
      fail();
      return {};
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  bool ended_well() const { return !failed_ && rest_.empty(); }
  bool failed() const { return failed_; }

 private:
  uint64_t fail() {
    failed_ = true;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool failed_ = false;
};

Duration since_boot(Time time) { return time.time_since_epoch(); }

Time time_at(uint64_t nanoseconds) {
  return Time(Duration(static_cast<Duration::rep>(nanoseconds)));
}

Status is_corrupt(std::string_view what) {
  return base::make_error(StatusCode::kCorrupt,
                          "read a store: {}; something else wrote to it: stop the job, remove the "
                          "file and start again",
                          what);
}

}  // namespace

std::string StateFile::write(const State& state, std::string_view boot) {
  Writer out;
  out.text(boot);
  out.number(state.revision_);
  out.number(state.last_lease_);
  out.number(state.entries_.size());
  for (const auto& [key, entry] : state.entries_) {
    out.text(key);
    out.text(entry.value);
    out.number(entry.revision);
    out.number(entry.lease);
  }
  out.number(state.leases_.size());
  for (const auto& [id, lease] : state.leases_) {
    out.number(id);
    out.number(static_cast<uint64_t>(lease.ttl.count()));
    out.number(static_cast<uint64_t>(since_boot(lease.ends).count()));
  }
  out.number(state.changes_.size());
  for (const Change& change : state.changes_) out.text(change.key);
  return std::move(out).finish();
}

Result<State> StateFile::read(std::string_view bytes, std::string_view boot, Time now) {
  State state;
  if (bytes.empty()) return state;
  uint64_t checksum = 0;
  if (bytes.size() < kMagic.size() + sizeof checksum || !bytes.starts_with(kMagic)) {
    return is_corrupt("it does not begin as one");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - sizeof checksum);
  std::memcpy(&checksum, bytes.data() + body.size(), sizeof checksum);
  if (checksum != XXH3_64bits(body.data(), body.size())) return is_corrupt("its checksum is wrong");
  Reader in(body.substr(kMagic.size()));
  const std::string written_boot = in.text();
  state.revision_ = in.number();
  state.last_lease_ = in.number();
  for (uint64_t left = in.number(); left > 0 && !in.failed(); --left) {
    Entry entry;
    entry.key = in.text();
    entry.value = in.text();
    entry.revision = in.number();
    entry.lease = in.number();
    const std::string key = entry.key;
    state.bytes_ += State::bytes_of(key, entry.value);
    state.entries_[key] = std::move(entry);
  }
  for (uint64_t left = in.number(); left > 0 && !in.failed(); --left) {
    const LeaseId id = in.number();
    const Duration ttl(static_cast<Duration::rep>(in.number()));
    state.leases_[id] = {ttl, time_at(in.number())};
  }
  const uint64_t changes = in.number();
  for (uint64_t left = changes; left > 0 && !in.failed(); --left) {
    state.changes_.push_back({state.revision_ - left + 1, in.text()});
  }
  if (!in.ended_well()) return is_corrupt("it ends too early or too late");
  if (written_boot != boot) state.extend_leases(now);
  return state;
}

}  // namespace ffdl::store
