// A worker for tests of `ffdl run`: joins its job, and makes empty steps in each of its worlds.
//   member_worker        until SIGTERM, which is a graceful leave
//   member_worker N      until a world has made N steps, and then ends with 0
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "ffdl/comm/communicator.h"
#include "ffdl/launch/environment.h"
#include "ffdl/membership.h"
#include "ffdl/store.h"

namespace {

using namespace std::chrono_literals;
using ffdl::Membership;
using ffdl::Status;
using ffdl::StatusCode;

constexpr auto kPatience = 60s;  // longer than a busy machine takes

volatile sig_atomic_t asked_to_end = 0;

// Makes the steps of one world. Returns OK if there is, or will be, a newer one, or if this member
// may leave.
Status take_steps(const ffdl::World& world, Membership& membership, ffdl::Store& store,
                  uint64_t limit, bool& is_done) {
  const auto deadline = [] { return ffdl::deadline_in(kPatience); };
  ffdl::CommunicatorOptions options;
  options.interrupt_check = [&]() -> Status {  // others may be in a newer world already
    FFDL_RETURN_IF_ERROR(membership.life_status());
    if (membership.world().generation == world.generation) return {};
    return Status(StatusCode::kWorldChanged, "this world is over");
  };
  FFDL_ASSIGN_OR_RETURN(const auto communicator,
                        connect_communicator(world, store, deadline(), options));
  FFDL_RETURN_IF_ERROR(communicator->barrier(deadline()));
  FFDL_RETURN_IF_ERROR(membership.activate(world.generation, deadline()));
  FFDL_RETURN_IF_ERROR(membership.wait_active(world.generation, deadline()));
  for (uint64_t step = 1; membership.world().generation == world.generation; ++step) {
    FFDL_RETURN_IF_ERROR(membership.life_status());
    if (asked_to_end != 0) membership.ask_to_leave();
    if (membership.may_leave()) return {};
    membership.report_progress(world.generation, step);
    FFDL_RETURN_IF_ERROR(communicator->barrier(deadline()));
    is_done = step >= limit;
    if (is_done) return {};
    ffdl::system_runtime().make_event()->wait_until(ffdl::deadline_in(5ms));
  }
  return {};
}

Status work(uint64_t limit) {
  FFDL_ASSIGN_OR_RETURN(const auto job, ffdl::job_environment());
  if (!job) return Status(StatusCode::kInvalidArgument, "FFDL_STORE is not set");
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(job->store_url, ffdl::system_runtime(),
                                                     {.secret = job->store_secret}));
  ffdl::MembershipOptions options = membership_options(*job);
  options.lease = 10s;  // for a busy machine
  options.fence_after = 30s;
  const ffdl::Member self{job->worker_id, 0, std::to_string(getpid())};
  FFDL_ASSIGN_OR_RETURN(const auto membership,
                        Membership::join(*store, ffdl::system_runtime(), self, options));
  std::printf("joined as life %lu\n", static_cast<unsigned long>(membership->self().incarnation));
  std::fflush(stdout);
  uint64_t generation = 0;
  bool is_done = false;
  while (!is_done && !membership->may_leave()) {
    if (asked_to_end != 0) membership->ask_to_leave();
    const auto world = membership->wait_world_after(generation, ffdl::deadline_in(20ms));
    if (world.status().code() == StatusCode::kTimeout) continue;
    FFDL_RETURN_IF_ERROR(world.status());
    generation = world->generation;
    if (world->rank < 0) continue;
    const Status outcome = take_steps(*world, *membership, *store, limit, is_done);
    const bool is_over = membership->world().generation > generation;
    if (!outcome.ok() && !is_over) membership->report_failure(generation);
    // As a Session: it lacks something in every world, and the others shall not try again.
    if (outcome.code() == StatusCode::kExhausted) return outcome;
  }
  const bool leaves = asked_to_end != 0 || membership->may_leave();
  return leaves ? membership->leave(ffdl::deadline_in(kPatience)) : Status();
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { asked_to_end = 1; });
  const Status outcome = work(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : UINT64_MAX);
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "%s\n", outcome.to_string().c_str());
  return 1;
}
