#include "store/local/state_file.h"

#include <utility>

#include "base/byte_records.h"
#include "base/errors.h"

namespace ffdl::store {
namespace {

constexpr std::string_view kStateMagic = "ffdlsto1";

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
  base::ByteWriter out(kStateMagic);
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
  if (bytes.empty()) return is_corrupt("its file is empty");
  State state;
  base::ByteReader in(bytes, kStateMagic);
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
  if (!in.problem().empty()) return is_corrupt(in.problem());
  if (written_boot != boot) state.extend_leases(now);
  return state;
}

}  // namespace ffdl::store
