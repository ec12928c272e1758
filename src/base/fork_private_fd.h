#pragma once

namespace ffdl::base {

// Owns a descriptor that belongs to this process alone. O_CLOEXEC closes it in programs that are
// exec'ed. This class also closes it in children made by fork(), before the child runs. Otherwise a
// file lock would outlive its owner in an unrelated child, and the owner's death could not be seen.
// The one exception to "no static state": fork() is an event of the process
// (docs/decisions/0002-fork.md).
// Threads: valid() from any thread.
class ForkPrivateFd {
 public:
  ForkPrivateFd() = default;
  // Takes `fd` over. If more than kForkPrivateMax are open, closes `fd`, and valid() is false.
  explicit ForkPrivateFd(int fd);
  ~ForkPrivateFd() { close(); }
  ForkPrivateFd(ForkPrivateFd&& other) noexcept : entry_(other.entry_) { other.entry_ = -1; }
  ForkPrivateFd& operator=(ForkPrivateFd&& other) noexcept;

  // False in a forked child, where the object was copied and the descriptor is closed.
  bool valid() const { return get() >= 0; }
  int get() const;  // -1 when not valid
  void close();
  // Gives up ownership without closing. The caller must soon give the descriptor to another owner.
  int release();

 private:
  int entry_ = -1;  // index in the table of the process
};

}  // namespace ffdl::base
