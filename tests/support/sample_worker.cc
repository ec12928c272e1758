// A worker for tests of `ffdl run --ledger-log`: trains a small model on each sample once per
// epoch, and logs the samples that it commits.
//   sample_worker EPOCHS [MILLISECONDS of a step] [SOCKET]
// With the socket of a stranger it trains over TCP. It reports the port of each of its listeners
// there before any other member learns it, and waits for an answer.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "comm/network/meeting.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/launch/environment.h"
#include "ffdl/session.h"
#include "support/forwarding_store.h"
#include "support/small_model.h"

namespace {

using namespace std::chrono_literals;
using ffdl::Status;

constexpr uint64_t kSamples = 960;

volatile sig_atomic_t asked_to_end = 0;

class TellingStore final : public ffdl::testing::ForwardingStore {
 public:
  TellingStore(Store& inner, std::string stranger)
      : ForwardingStore(inner), stranger_(std::move(stranger)) {}

  ffdl::Result<ffdl::Revision> compare_and_put(std::string_view key, ffdl::Revision expected,
                                               std::string_view value,
                                               ffdl::LeaseId lease) override {
    const auto record = ffdl::comm::link_record_of(value);
    if (record.ok()) tell(record->port);
    return inner_.compare_and_put(key, expected, value, lease);
  }

 private:
  void tell(uint16_t port) const {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = {}};
    stranger_.copy(to.sun_path, sizeof to.sun_path - 1);
    char answer = 0;
    if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 ||
        write(fd, &port, sizeof port) != ssize_t{sizeof port} || read(fd, &answer, 1) != 1) {
      std::fprintf(stderr, "the stranger does not answer\n");
    }
    close(fd);
  }

  const std::string stranger_;
};

ffdl::LedgerOptions samples_of(uint64_t epochs) {
  ffdl::LedgerOptions order;
  order.samples = kSamples;
  order.partition_samples = kSamples;
  order.epochs = epochs;
  order.order = ffdl::SampleOrder::kGlobal;
  order.batch_samples = 12;
  return order;
}

Status train(uint64_t epochs, ffdl::Duration step_time, const std::string& stranger) {
  FFDL_ASSIGN_OR_RETURN(const auto job, ffdl::job_environment());
  if (!job) return Status(ffdl::StatusCode::kInvalidArgument, "FFDL_STORE is not set");
  const ffdl::LedgerOptions order = samples_of(epochs);
  FFDL_ASSIGN_OR_RETURN(
      const auto commits,
      ffdl::CommitLog::open(job->ledger_log + "/" + job->worker_id + ".commits", order));
  ffdl::LedgerMemberOptions member;
  member.on_stable = [&](const ffdl::CommittedStep& step) { commits->write(step); };
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(order, member));
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(job->store_url, ffdl::system_runtime(),
                                                     {.secret = job->store_secret}));
  ffdl::SessionOptions options;
  options.self.id = job->worker_id;
  options.membership = membership_options(*job);
  options.membership.lease = 5s;  // for a busy machine
  options.participants = {ledger->participant()};
  TellingStore telling(*store, stranger);
  if (!stranger.empty()) {
    options.connect = [&telling](const ffdl::World& world, ffdl::Time deadline,
                                 const ffdl::ConnectWatch& watch) {
      ffdl::CommunicatorOptions links;
      links.backend = ffdl::Backend::kTcp;
      links.interrupt_check = watch.interrupt_check;
      links.unreached = watch.unreached;
      return connect_communicator(world, telling, deadline, links);
    };
  }
  ffdl::testing::SmallModel model;
  FFDL_ASSIGN_OR_RETURN(const auto session, ffdl::Session::open(options, model, *store));
  const auto never = ffdl::system_runtime().make_event();
  size_t worlds = 0;
  while (!ledger->is_done()) {
    if (asked_to_end != 0) session->ask_to_leave();
    if (worlds != model.worlds.size()) {
      worlds = model.worlds.size();
      std::printf("%d members from step %lu\n", session->world().size(),
                  static_cast<unsigned long>(session->step()));
      std::fflush(stdout);
    }
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take());
    FFDL_ASSIGN_OR_RETURN(const auto samples, ledger->sample_indices(ranges));
    model.compute(samples.empty() ? 0 : samples.front());
    never->wait_until(ffdl::deadline_in(step_time));
    FFDL_ASSIGN_OR_RETURN(const ffdl::StepResult result, session->end_step());
    if (result == ffdl::StepResult::kLeft) return {};
  }
  return session->finish();
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { asked_to_end = 1; });
  if (argc < 2) return 2;
  const ffdl::Duration step_time = std::chrono::milliseconds(argc > 2 ? std::atol(argv[2]) : 1);
  const Status outcome =
      train(std::strtoull(argv[1], nullptr, 10), step_time, argc > 3 ? argv[3] : "");
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "%s\n", outcome.to_string().c_str());
  return 1;
}
