#pragma once

#include <functional>
#include <future>

#include "net/loop.h"

namespace ffdl::testing {

// Runs `work` on the thread of the loop, and waits for its end.
inline void on_loop(net::Loop& loop, const std::function<void()>& work) {
  std::promise<void> done;
  loop.post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace ffdl::testing
