#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "comm/nccl_communicator.h"
#include "comm/shm_communicator.h"
#include "support/fake_nccl_state.h"
#include "support/host_device.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

// A libnccl.so for HostDevice, among the threads of one process: tests/support/fake_nccl.cc.
namespace ffdl::testing {

// The library, by the loader of ffdl.
inline std::shared_ptr<const comm::NcclLibrary> fake_nccl() {
  auto loaded = comm::NcclLibrary::load({FFDL_FAKE_NCCL});
  EXPECT_OK(loaded);
  return std::move(loaded).value();
}

// The library's own, which all tests of a process share: it begins anew.
inline FakeNccl& fresh_fake_nccl() {
  void* const library = dlopen(FFDL_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  const auto state = reinterpret_cast<FakeNccl* (*)()>(dlsym(library, "fake_nccl_state"));
  FakeNccl& fresh = *state();
  fresh.version = 23007;
  fresh.polls = fresh.async_error = fresh.connect_error = 0;
  fresh.hangs = fresh.alone = false;
  fresh.aborted = fresh.left = 0;
  fresh.reach = nullptr;
  return fresh;
}

// One rank of a world on one host. Its lists pass through little memory, so that they take parts.
inline Result<std::unique_ptr<Communicator>> connect_nccl(
    const World& world, Store& store, Time deadline,
    Result<std::shared_ptr<const comm::NcclLibrary>> library = fake_nccl(),
    std::unique_ptr<HostDevice> device = std::make_unique<HostDevice>(),
    std::function<Status()> look = {}) {
  const CommunicatorOptions options{.look = look};
  FFDL_ASSIGN_OR_RETURN(
      std::unique_ptr<comm::ShmMeeting> meeting,
      comm::ShmMeeting::join(world, store, deadline, options, comm::ShmMeeting::Way::kProcess));
  return comm::NcclCommunicator::connect(
      world,
      {.host = std::make_unique<comm::ShmCommunicator>(world, std::move(meeting)),
       .side = std::move(device),
       .library = std::move(library),
       .stage_bytes = uint64_t{16} << 10,
       .look = std::move(look)},
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

}  // namespace ffdl::testing
