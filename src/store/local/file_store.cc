#include "store/local/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "base/own_files.h"
#include "store/failures.h"
#include "store/local/files.h"
#include "store/local/state_file.h"

namespace ffdl::store {

using base::errno_text;
using base::make_error;

Result<std::unique_ptr<Store>> FileStore::open(const std::string& folder, Runtime& runtime,
                                               const StoreOptions& options) {
  FFDL_RETURN_IF_ERROR(base::make_own_folder(folder).status().with_context("open store"));
  Clock clock;
  FFDL_ASSIGN_OR_RETURN(clock.boot, read_boot_id());
  FFDL_ASSIGN_OR_RETURN(clock.offset, read_clock_offset());
  auto store =
      std::unique_ptr<FileStore>(new FileStore(folder, std::move(clock), runtime, options));
  FFDL_RETURN_IF_ERROR(store->list("").status());  // the file is a store's
  return std::unique_ptr<Store>(std::move(store));
}

// Takes a queue's lock first: a polled lock is never free while a writer retakes it at once. The
// process that waits for the lock holds the queue, and the writer waits behind it.
Result<int> FileStore::lock() const {
  FFDL_ASSIGN_OR_RETURN(const int queue, wait_for_lock(folder_ + "/queue"));
  const Descriptor held(queue);
  return wait_for_lock(folder_ + "/lock");
}

Result<int> FileStore::wait_for_lock(const std::string& path) const {
  FFDL_ASSIGN_OR_RETURN(base::OwnFd file, open_file(path, O_RDWR | O_CREAT));
  const int fd = file.release();
  const Time deadline = runtime_.now() + options_.operation_timeout;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error != EWOULDBLOCK || runtime_.now() >= deadline) {
      ::close(fd);
      return make_error(
          StatusCode::kUnavailable,
          "lock store file '{}': {} after {} ms; is a process that uses it stopped", path,
          errno_text(error),
          std::chrono::duration_cast<std::chrono::milliseconds>(options_.operation_timeout)
              .count());
    }
    runtime_.make_event()->wait_until(runtime_.now() + base::kPollInterval);
  }
  return fd;
}

template <class Change>
auto FileStore::apply(Change&& change) -> decltype(change(std::declval<State&>(), Time())) {
  FFDL_ASSIGN_OR_RETURN(const int fd, lock());
  const Descriptor locked(fd);
  const Time now = runtime_.now() - clock_.offset;
  const std::string path = folder_ + "/state";
  State state;
  auto before = base::read_own_file(path);
  if (before.ok()) {
    auto read = StateFile::read(*before, clock_.boot, now);
    if (!read.ok()) return std::move(read).status().with_context(path);
    state = std::move(read).value();
  } else if (before.status().code() != StatusCode::kNotFound) {  // no file: it is empty
    return std::move(before).status();
  }
  auto result = change(state, now);
  // Also after a failed change: a lease may have ended meanwhile.
  const std::string after = StateFile::write(state, clock_.boot);
  if (!before.ok() || after != *before) FFDL_RETURN_IF_ERROR(replace_file(path, after));
  return result;
}

Result<Entry> FileStore::get(std::string_view key) {
  return apply([&](State& state, Time now) { return state.get(key, now); });
}

Result<std::vector<Entry>> FileStore::list(std::string_view prefix) {
  return apply([&](State& state, Time now) -> Result<std::vector<Entry>> {
    return state.list(prefix, now);
  });
}

Result<Revision> FileStore::put(std::string_view key, std::string_view value, LeaseId lease) {
  return apply([&](State& state, Time now) { return state.put(key, value, lease, now); });
}

Result<Revision> FileStore::compare_and_put(std::string_view key, Revision expected,
                                            std::string_view value, LeaseId lease) {
  return apply([&](State& state, Time now) {
    return state.compare_and_put(key, expected, value, lease, now);
  });
}

Status FileStore::remove(std::string_view key) {
  return apply([&](State& state, Time now) {
    state.remove(key, now);
    return Status();
  });
}

Result<Revision> FileStore::wait_change(std::string_view prefix, Revision after, Time deadline) {
  while (true) {
    bool changed = false;
    FFDL_ASSIGN_OR_RETURN(const Revision newest,
                          apply([&](State& state, Time now) -> Result<Revision> {
                            changed = state.has_changed(prefix, after, now);
                            return state.revision();
                          }));
    if (changed) return newest;
    const Time now = runtime_.now();
    if (now >= deadline) {
      return no_change(prefix, after);
    }
    runtime_.make_event()->wait_until(std::min<Time>(deadline, now + base::kFileStorePoll));
  }
}

Result<LeaseId> FileStore::grant_lease(Duration ttl) {
  return apply([&](State& state, Time now) { return state.grant_lease(ttl, now); });
}

Status FileStore::keep_alive(LeaseId lease) {
  return apply([&](State& state, Time now) { return state.keep_alive(lease, now); });
}

Status FileStore::end_lease(LeaseId lease) {
  return apply([&](State& state, Time now) {
    state.end_lease(lease, now);
    return Status();
  });
}

}  // namespace ffdl::store
