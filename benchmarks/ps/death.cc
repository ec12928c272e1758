#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "benchmarks/harness/resident.h"
#include "benchmarks/limits.h"
#include "benchmarks/ps/rows.h"

namespace ffdl::bench {
namespace {

// Long enough to leave the processors to the working processes, short against a millisecond.
constexpr auto kLook = std::chrono::microseconds(20);

Result<std::unique_ptr<Resident>> start_ready(const std::vector<std::string>& arguments) {
  FFDL_ASSIGN_OR_RETURN(auto child, Resident::start_self(arguments));
  FFDL_ASSIGN_OR_RETURN([[maybe_unused]] const std::string ready, child->ask(""));
  return child;
}

template <class Condition>
Status look_until(Condition condition, const char* what) {
  const Time until = deadline_in(kPatience);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) {
      return {StatusCode::kTimeout, fmt::format("wait until {}: not within 20 s", what)};
    }
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

// Returns the seconds from SIGKILL until the kernel reports the end of the process.
Result<double> kill_until_gone(const std::string& segment) {
  FFDL_ASSIGN_OR_RETURN(auto child, start_ready({"--role", "learner", segment}));
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child->pid(), 0));
  if (descriptor < 0) return Status(StatusCode::kUnavailable, "pidfd_open: this kernel has none");
  const double seconds = seconds_of([&] {
    child->kill_now();
    pollfd gone{descriptor, POLLIN, 0};
    poll(&gone, 1, -1);
  });
  close(descriptor);
  child->reap();
  return seconds;
}

Result<double> kill_until_reclaimed(const ParameterServer& server) {
  FFDL_ASSIGN_OR_RETURN(auto child, start_ready({"--role", "learner", server.name()}));
  const uint64_t before = server.stats().learners_reclaimed;
  Status reclaimed;
  const double seconds = seconds_of([&] {
    child->kill_now();
    reclaimed = look_until([&] { return server.stats().learners_reclaimed > before; },
                           "the dead learner's slot is reclaimed");
  });
  child->reap();
  FFDL_RETURN_IF_ERROR(std::move(reclaimed));
  return seconds;
}

void detect_row(Suite& suite) {
  const std::string name = "ps/detect_dead_learner_ms";
  if (!suite.wants(name)) return;
  ParameterServerOptions options;
  options.name = segment_name();
  options.parameters = 1'000'000;
  auto server = ParameterServer::create(options);
  if (!server.ok()) return suite.failed(name, server.status());
  if (Status started = (*server)->start(); !started.ok()) return suite.failed(name, started);
  suite.measure(PairSpec{
      .name = name,
      .unit = "ms",
      .figure = [](double seconds) { return seconds * 1e3; },
      .subject = [&] { return kill_until_reclaimed(**server); },
      // A death that the server has not seen yet must not be counted as the next learner's death.
      .limit = [&]() -> Result<double> {
        const uint64_t before = (*server)->stats().learners_reclaimed;
        FFDL_ASSIGN_OR_RETURN(const double seconds, kill_until_gone(options.name));
        FFDL_RETURN_IF_ERROR(
            look_until([&] { return (*server)->stats().learners_reclaimed > before; },
                       "the slot of the limit's learner is reclaimed"));
        return seconds;
      },
      .limit_is = "SIGKILL until the kernel reports the end of the process (pidfd)",
      .note = "SIGKILL of a learner process until stats() counts its slot as reclaimed"});
}

// Adopts the segment as soon as the dead server's lock is free.
Result<std::unique_ptr<ParameterServer>> adopt_when_free(const std::string& segment) {
  const Time until = deadline_in(kPatience);
  for (;;) {
    auto adopted = ParameterServer::adopt(segment);
    const bool held = !adopted.ok() && adopted.status().code() == StatusCode::kConflict;
    if (!held || std::chrono::steady_clock::now() > until) return adopted;
    std::this_thread::sleep_for(kLook);
  }
}

// Kills a server process that has a gradient to fold. This process adopts its segment and folds it.
Result<double> kill_until_adopted(const std::string& parameters) {
  const std::string segment = segment_name();
  FFDL_ASSIGN_OR_RETURN(auto child, start_ready({"--role", "server", segment, parameters}));
  FFDL_ASSIGN_OR_RETURN(auto learner, Learner::attach(segment, deadline_in(kPatience)));
  FFDL_ASSIGN_OR_RETURN(const auto slot, learner->gradient_slot(deadline_in(kPatience)));
  std::ranges::fill(slot, 1.0F);
  FFDL_RETURN_IF_ERROR(learner->push(Gradient::slot(), next_sample(*learner)).status());
  const auto begin = std::chrono::steady_clock::now();
  child->kill_now();
  FFDL_ASSIGN_OR_RETURN(auto successor, adopt_when_free(segment));
  FFDL_RETURN_IF_ERROR(successor->start());
  FFDL_RETURN_IF_ERROR(learner->flush(deadline_in(kPatience)));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  child->reap();
  FFDL_RETURN_IF_ERROR(learner->detach(deadline_in(kPatience)));
  FFDL_RETURN_IF_ERROR(successor->stop());
  return seconds.count();
}

}  // namespace

void death_rows(Suite& suite, const Reference& machine) {
  detect_row(suite);
  const std::string name = "ps/adopt_ms";
  if (!suite.wants(name)) return;
  const std::string parameters = std::to_string(machine.large_bytes / sizeof(float));
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN(const double seconds, kill_until_adopted(parameters));
        return seconds * 1e3;
      },
      .note = fmt::format("{} MB; SIGKILL of the server, just after a push, until a successor in a "
                          "waiting process has folded that gradient",
                          machine.large_bytes / 1'000'000)});
}

}  // namespace ffdl::bench
