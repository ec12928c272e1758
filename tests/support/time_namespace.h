#pragma once

#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "support/exit_code.h"
#include "support/fork_child.h"

namespace ffdl::testing {

// The result of the functions below if the kernel has no time namespaces, or refuses one.
inline constexpr int kNoTimeNamespace = 77;

// Makes a time namespace, which only later children of this process enter.
inline bool make_time_namespace() {
  constexpr int kNewTime = 0x80;  // CLONE_NEWTIME, which older headers do not have
  return ::unshare(kNewTime) == 0;
}

// Runs `body` in a process whose clocks are 100,000 s ahead. Returns the result of `body`, which is
// from 0 to 76.
template <class Body>
int in_time_namespace(const Body& body) {
  const pid_t maker = fork_child();
  if (maker == 0) {
    if (!make_time_namespace()) ::_exit(kNoTimeNamespace);
    std::ofstream offsets("/proc/self/timens_offsets");
    offsets << "monotonic 100000 0\nboottime 100000 0\n" << std::flush;
    if (!offsets) ::_exit(kNoTimeNamespace);
    const pid_t inside = fork_child();
    if (inside == 0) ::_exit(body());
    ::_exit(exit_code(inside));
  }
  return exit_code(maker);
}

}  // namespace ffdl::testing
