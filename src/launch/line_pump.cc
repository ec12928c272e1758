#include "launch/line_pump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/resource_limit.h"

namespace ffdl::launch {
namespace {

// Writes all of `text`. What cannot be written is dropped: a worker does not end for lack of a
// reader.
void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(to, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd ready = {to, POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void wake(int fd) {
  const uint64_t one = 1;
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<std::unique_ptr<LinePump>> LinePump::start() {
  base::ForkPrivateFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return base::system_failure("forward the lines of workers", errno, "try again",
                                StatusCode::kExhausted);
  }
  auto pump = std::unique_ptr<LinePump>(new LinePump(std::move(wake)));
  FFDL_ASSIGN_OR_RETURN(
      pump->thread_,
      base::Thread::start("ffdl-lines", [p = pump.get()](const StopToken& stop) { p->run(stop); }));
  return pump;
}

LinePump::LinePump(base::ForkPrivateFd wake) : wake_(std::move(wake)) {}

LinePump::~LinePump() {
  thread_.request_stop();
  wake(wake_.get());
  thread_.join();
}

void LinePump::add(base::ForkPrivateFd pipe, std::string prefix, int to) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  {
    base::MutexLock lock(mutex_);
    added_.push_back({std::move(pipe), std::move(prefix), to});
  }
  wake(wake_.get());
}

void LinePump::run(const StopToken& stop) {
  bool is_last = false;
  while (!is_last) {
    is_last = stop.stop_requested();  // before the read: data written until then is passed on
    {
      base::MutexLock lock(mutex_);
      std::move(added_.begin(), added_.end(), std::back_inserter(sources_));
      added_.clear();
    }
    std::vector<pollfd> ready = {{wake_.get(), POLLIN, 0}};
    for (const Source& source : sources_) ready.push_back({source.pipe.get(), POLLIN, 0});
    ::poll(ready.data(), ready.size(), is_last ? 0 : -1);
    uint64_t count = 0;
    static_cast<void>(::read(wake_.get(), &count, sizeof count));
    for (size_t i = sources_.size(); i > 0; --i) {
      Source& source = sources_[i - 1];
      if (!is_last && ready[i].revents == 0) continue;
      if (!read_from(source)) sources_.erase(sources_.begin() + static_cast<ptrdiff_t>(i - 1));
    }
  }
  for (Source& source : sources_) finish(source);
}

bool LinePump::read_from(Source& source) {
  char bytes[1 << 16];
  while (true) {
    const ssize_t count = ::read(source.pipe.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) {
      finish(source);
      return false;
    }
    source.rest.append(bytes, static_cast<size_t>(count));
    pass_lines(source);
  }
}

// A line ends in "\n", "\r" or "\r\n". A "\r" without text before it shows nothing: it is dropped.
void LinePump::pass_lines(Source& source) {
  std::string out;
  std::string_view rest = source.rest;
  for (size_t end = 0; (end = rest.find_first_of("\r\n")) != std::string_view::npos;) {
    const bool is_return = rest[end] == '\r';
    size_t length = end + 1;
    if (end > 0 || !(is_return || source.ends_in_return)) {
      if (is_return && rest.substr(length).starts_with('\n')) ++length;
      out.append(source.prefix).append(rest.substr(0, length));
      source.ends_in_return = rest[length - 1] == '\r';
    } else if (!is_return) {
      out.push_back('\n');
      source.ends_in_return = false;
    }
    rest.remove_prefix(length);
  }
  source.rest.erase(0, source.rest.size() - rest.size());
  for (; source.rest.size() >= base::kLogLineMax; source.rest.erase(0, base::kLogLineMax)) {
    out.append(source.prefix).append(source.rest, 0, base::kLogLineMax).push_back('\n');
    source.ends_in_return = false;
  }
  write_all(source.to, out);
}

void LinePump::finish(Source& source) {
  if (source.rest.empty() && !source.ends_in_return) return;
  source.rest.push_back('\n');
  pass_lines(source);
}

}  // namespace ffdl::launch
