#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>

#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::testing {

// Ranks that are processes, which can be killed and stopped. The test itself may be one of them.
class RankProcesses : public ::testing::Test {
 protected:
  explicit RankProcesses(Backend backend = Backend::kAuto) : backend_(backend) {}

  Result<std::unique_ptr<Communicator>> connect(int rank, int ranks) {
    auto store = open_store("file://" + folder_.path(), system_runtime());
    if (!store.ok()) return std::move(store).status();
    return connect({generation_, rank, members_named(ranks)}, **store);
  }
  virtual Result<std::unique_ptr<Communicator>> connect(const World& world, Store& store) {
    return connect_communicator(world, store, soon(), {.backend = backend_});
  }

  // Starts a process as rank `rank`, which ends with the result of `body`.
  pid_t start(int rank, int ranks, const std::function<int(Communicator&)>& body) {
    const pid_t child = fork_child();
    if (child != 0) return child;
    const auto communicator = connect(rank, ranks);
    _exit(communicator.ok() ? body(**communicator) : 99);
  }

  uint64_t generation_ = 1;

 private:
  const Backend backend_;
  const TempFolder folder_;
};

}  // namespace ffdl::testing
