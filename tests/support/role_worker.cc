// A worker for tests of `ffdl run`: an object without a session that waits for other processes, or
// works with them, until it reports the end of its launcher.
//   role_worker learner NAME          pushes to the parameter server NAME
//   role_worker attach NAME           waits for the parameter server NAME
//   role_worker averaging NAME        the same as an averaging learner
//   role_worker server NAME           serves the parameter server NAME-WORKER
//   role_worker ledger NAME           takes and commits samples of a ledger in the store
//   role_worker sum BACKEND           sums up with the other workers
//   role_worker receive BACKEND       waits for a message that no other worker sends
//   role_worker connect BACKEND       waits for a worker that does not exist
//   role_worker subscribe NAME        waits for a world that does not exist
//   role_worker put NAME              waits for a consumer of a ring of batches
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "ffdl/comm/all_reduce_subscriber.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/data/batch_ring.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/launch/environment.h"
#include "ffdl/ps/averaging_learner.h"
#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"
#include "ffdl/store.h"

namespace {

using namespace std::chrono_literals;
using ffdl::deadline_in;
using ffdl::Status;
using ffdl::StatusCode;

constexpr auto kLong = 1h;  // a test does not wait so long

struct Worker {
  ffdl::JobEnvironment job{};
  ffdl::World world{};
  std::unique_ptr<ffdl::Store> store{};
  std::string name{};
};

// Tells the test that the object exists and works.
void tell_up() {
  std::printf("up\n");
  std::fflush(stdout);
}

void pause() { ffdl::system_runtime().make_event()->wait_until(deadline_in(1ms)); }

Status learn(const Worker& worker) {
  FFDL_ASSIGN_OR_RETURN(const auto learner,
                        ffdl::Learner::attach(worker.name, deadline_in(kLong), {}));
  const auto partition = static_cast<uint32_t>(worker.world.rank);
  std::vector<float> weights(learner->parameters());
  for (uint64_t sample = 0;; ++sample) {
    FFDL_RETURN_IF_ERROR(learner->begin_mini_batch(deadline_in(kLong)));
    FFDL_RETURN_IF_ERROR(learner->pull(weights).status());
    const ffdl::SampleRange range = {partition, sample, sample + 1};
    FFDL_RETURN_IF_ERROR(learner->push(weights, {&range, 1}).status());
    if (sample == 0) tell_up();
    pause();
  }
}

Status attach(const Worker& worker) {
  tell_up();
  return ffdl::Learner::attach(worker.name, deadline_in(kLong), {}).status();
}

Status learn_by_averages(const Worker& worker) {
  ffdl::AveragingOptions options;
  options.period = 1'000'000;  // no exchange in this test
  FFDL_ASSIGN_OR_RETURN(const auto learner, ffdl::AveragingLearner::attach(
                                                worker.name, deadline_in(kLong), options));
  const auto partition = static_cast<uint32_t>(worker.world.rank);
  for (uint64_t sample = 0;; ++sample) {
    FFDL_ASSIGN_OR_RETURN(const auto weights, learner->begin_mini_batch(deadline_in(kLong)));
    FFDL_RETURN_IF_ERROR(learner->step(weights, {partition, sample, sample + 1}));
    if (sample == 0) tell_up();
    pause();
  }
}

Status serve(const Worker& worker) {
  ffdl::ParameterServerOptions options;
  options.name = worker.name + "-" + worker.job.worker_id;
  options.parameters = 100;
  FFDL_ASSIGN_OR_RETURN(const auto server, ffdl::ParameterServer::create(options));
  tell_up();
  const std::stop_source never;
  return server->serve(never.get_token());
}

// There is one partition: one worker has it, and the others wait.
Status use_samples(const Worker& worker) {
  ffdl::LedgerOptions data;
  data.samples = 1'000'000'000;
  data.partition_samples = data.samples;
  ffdl::StoreLedgerOptions options;
  options.job = worker.job.job;
  options.id = worker.job.worker_id;
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_store_ledger(data, options, *worker.store));
  tell_up();
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const auto samples, ledger->take(10));
    FFDL_RETURN_IF_ERROR(samples.empty() ? ledger->wait(deadline_in(kLong)) : ledger->commit());
    pause();
  }
}

ffdl::Result<std::unique_ptr<ffdl::Communicator>> connect(const Worker& worker) {
  ffdl::CommunicatorOptions options;
  options.backend = worker.name == "gloo"  ? ffdl::Backend::kGloo
                    : worker.name == "tcp" ? ffdl::Backend::kTcp
                                           : ffdl::Backend::kShm;
  return connect_communicator(worker.world, *worker.store, deadline_in(kLong), options);
}

Status sum_up(const Worker& worker) {
  FFDL_ASSIGN_OR_RETURN(const auto communicator, connect(worker));
  std::vector<float> values(1000);
  for (bool is_first = true;; is_first = false) {
    FFDL_RETURN_IF_ERROR(
        communicator->all_reduce({values.data(), values.size(), ffdl::DType::kFloat32},
                                 ffdl::ReduceOp::kMean, deadline_in(kLong)));
    if (is_first) tell_up();
    pause();
  }
}

Status receive(const Worker& worker) {
  FFDL_ASSIGN_OR_RETURN(const auto communicator, connect(worker));
  FFDL_RETURN_IF_ERROR(communicator->barrier(deadline_in(kLong)));
  tell_up();
  float value = 0;
  return communicator->recv({&value, 1, ffdl::DType::kFloat32}, 1 - worker.world.rank,
                            deadline_in(kLong));
}

Status wait_for_a_worker(Worker& worker) {
  worker.world.members.push_back({.id = "nobody"});
  tell_up();
  return connect(worker).status();
}

Status subscribe(const Worker& worker) {
  tell_up();
  return ffdl::AllReduceSubscriber::attach(worker.world, *worker.store, deadline_in(kLong))
      .status();
}

Status put() {
  FFDL_ASSIGN_OR_RETURN(const auto ring, ffdl::BatchRing::create({}, {}));
  tell_up();
  return ring->put({}, deadline_in(kLong));
}

Status work(const std::string& role, const std::string& name) {
  FFDL_ASSIGN_OR_RETURN(const auto job, ffdl::job_environment());
  FFDL_ASSIGN_OR_RETURN(const auto launch, ffdl::launch_environment());
  if (!job || !launch) return Status(StatusCode::kInvalidArgument, "start it with 'ffdl run'");
  Worker worker = {.job = *job, .world = world_of(*launch), .store = {}, .name = name};
  FFDL_ASSIGN_OR_RETURN(worker.store, open_store(job->store_url, ffdl::system_runtime(),
                                                 {.secret = job->store_secret}));
  if (role == "learner") return learn(worker);
  if (role == "attach") return attach(worker);
  if (role == "averaging") return learn_by_averages(worker);
  if (role == "server") return serve(worker);
  if (role == "ledger") return use_samples(worker);
  if (role == "sum") return sum_up(worker);
  if (role == "receive") return receive(worker);
  if (role == "connect") return wait_for_a_worker(worker);
  if (role == "subscribe") return subscribe(worker);
  if (role == "put") return put();
  return Status(StatusCode::kInvalidArgument, "no such role");
}

}  // namespace

int main(int argc, char** argv) {
  const Status outcome = argc == 3 ? work(argv[1], argv[2])
                                   : Status(StatusCode::kInvalidArgument, "give role and name");
  std::fprintf(stderr, "%s\n", outcome.to_string().c_str());
  return 1;
}
