#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "comm/gpu/nccl/communicator.h"
#include "comm/shm/communicator.h"
#include "support/fake_nccl_state.h"
#include "support/host_device.h"
#include "support/programs.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Declares a libnccl.so for HostDevice and the threads of one process: tests/support/fake_nccl.cc.
namespace ffdl::testing {

// Returns the library, loaded by ffdl's loader. kFakeNcclWithoutGrow is another version of
// it.
inline std::shared_ptr<const comm::NcclLibrary> fake_nccl(const char* path = kFakeNccl) {
  auto loaded = comm::NcclLibrary::load({path});
  EXPECT_OK(loaded);
  return std::move(loaded).value();
}

// Resets the library's state, which all tests of a process share, and returns it.
inline FakeNccl& fresh_fake_nccl(const char* path = kFakeNccl) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  const auto state = reinterpret_cast<FakeNccl* (*)()>(dlsym(library, "fake_nccl_state"));
  FakeNccl& fresh = *state();
  fresh.version = 23007;
  fresh.last_error = "the fake was told to fail";
  fresh.polls = fresh.async_error = fresh.connect_error = 0;
  fresh.hangs = fresh.alone = fresh.derive_hangs = fresh.keeps_memory = false;
  fresh.derive_fails_at = fresh.derive_fails_late_at = -1;
  fresh.aborted = fresh.left = fresh.grown = fresh.shrunk = fresh.revoked = fresh.misused = 0;
  fresh.suspended = fresh.resumed = 0;
  fresh.reach = nullptr;
  return fresh;
}

// Connects one rank of a world on one host. Its lists pass through little memory, so they take
// several parts.
inline Result<std::unique_ptr<Communicator>> connect_nccl(
    const World& world, Store& store, Time deadline,
    Result<std::shared_ptr<const comm::NcclLibrary>> library = fake_nccl(),
    std::unique_ptr<HostDevice> device = std::make_unique<HostDevice>(),
    std::function<Status()> look = {}, GpuWorlds gpu_worlds = GpuWorlds::kFresh,
    Duration derive_max = std::chrono::minutes(1)) {
  const CommunicatorOptions options{.interrupt_check = look};
  FFDL_ASSIGN_OR_RETURN(
      std::unique_ptr<comm::ShmMeeting> meeting,
      comm::ShmMeeting::join(world, store, deadline, options, comm::ShmMeeting::Way::kProcess));
  return comm::NcclCommunicator::connect(
      world,
      {.host = std::make_unique<comm::ShmCommunicator>(world, std::move(meeting)),
       .side = std::move(device),
       .library = std::move(library),
       .stage_bytes = uint64_t{16} << 10,
       .interrupt_check = std::move(look),
       .gpu_worlds = gpu_worlds,
       .derive_max = derive_max},
      deadline);
}

inline Ranks nccl_ranks(uint64_t generation, const std::vector<Member>& members) {
  auto store = open_store("mem://", system_runtime());
  Ranks ranks(members.size());
  on_threads(static_cast<int>(members.size()), [&](int rank) {
    auto made = connect_nccl({generation, rank, members}, **store, soon());
    ASSERT_OK(made);
    ranks[static_cast<size_t>(rank)] = std::move(made).value();
  });
  return ranks;
}

// Makes the next world of the ranks in `before`. Each member finds its old rank by its name; other
// members are new.
inline Ranks continue_nccl(uint64_t generation, const std::vector<Member>& members,
                           const Ranks& before = {}, const char* path = kFakeNccl) {
  auto store = open_store("mem://", system_runtime());
  Ranks ranks(members.size());
  on_threads(static_cast<int>(members.size()), [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    auto made = connect_nccl({generation, rank, members}, **store, soon(), fake_nccl(path),
                             std::make_unique<HostDevice>(), {}, GpuWorlds::kReuse);
    ASSERT_OK(made);
    ranks[at] = std::move(made).value();
    Communicator* own = nullptr;
    for (const auto& old : before) {
      if (old->world().members[static_cast<size_t>(old->world().rank)] == members[at]) {
        own = old.get();
      }
    }
    ASSERT_OK(ranks[at]->continue_from(own, soon()));
  });
  return ranks;
}

// Makes worlds that NCCL has grown or shrunk by one. The earlier worlds have numbers far from the
// tests' own.
constexpr uint64_t kBefore = 1000;
inline Ranks grown_nccl_ranks(uint64_t generation, const std::vector<Member>& members) {
  const std::vector<Member> fewer(members.begin(), members.end() - 1);
  const Ranks before = fewer.empty() ? Ranks() : continue_nccl(kBefore + generation, fewer);
  return continue_nccl(generation, members, before);
}
inline Ranks shrunk_nccl_ranks(uint64_t generation, const std::vector<Member>& members) {
  std::vector<Member> more = members;
  more.insert(more.begin(), {"gone", 1});
  return continue_nccl(generation, members, continue_nccl(kBefore + generation, more));
}

}  // namespace ffdl::testing
