#pragma once

namespace ffdl::base {

// A descriptor that belongs to this process alone. O_CLOEXEC keeps it from programs that are
// exec'ed; this class also keeps it from children made by fork(): the child closes its copy before
// it runs. A file lock would otherwise outlive its owner in a child that knows nothing of it, and
// the owner's death could not be seen.
// The one exception to "no static state": fork() is an event of the process
// (docs/decisions/0002-fork.md).
// Threads: valid() from any thread.
class ForkPrivateFd {
 public:
  ForkPrivateFd() = default;
  // Takes `fd` over. When more than kForkPrivateMax are open the fd is closed and valid() is false.
  explicit ForkPrivateFd(int fd);
  ~ForkPrivateFd() { close(); }
  ForkPrivateFd(ForkPrivateFd&& other) noexcept : entry_(other.entry_) { other.entry_ = -1; }
  ForkPrivateFd& operator=(ForkPrivateFd&& other) noexcept;

  // False in a forked child, where the object was copied and the descriptor is closed.
  bool valid() const { return get() >= 0; }
  int get() const;  // -1 when not valid
  void close();
  // Gives it up, open: another object closes it, which must come soon after.
  int release();

 private:
  int entry_ = -1;  // place in the table of the process
};

}  // namespace ffdl::base
