#include "cluster/autoscaler/snapshot.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "ffdl/launch/running_job.h"

namespace ffdl::cluster {
namespace {

int offered(const Entry& entry) {
  int workers = 0;
  const char* end = entry.value.data() + entry.value.size();
  const auto read = std::from_chars(entry.value.data(), end, workers);
  if (read.ec == std::errc() && read.ptr == end && workers >= 0) return workers;
  base::log_warning("autoscale: '{}' offers '{}', which is not a number; offer again", entry.key,
                    entry.value);
  return 0;
}

void add_worker(const WorkerStatus& worker, JobFacts& job, int& begun) {
  const std::string& phase = worker.phase;
  // A worker that pauses between two lives keeps its place.
  if (phase == "running" || phase == "paused") ++begun;
  if (phase == "finished" || phase == "lost") ++begun;
  if (phase == "running" || phase == "paused" || phase == "stopping") ++job.running;
}

Status add_run(Store& store, JobFacts& job) {
  FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store, job.request.name));
  if (run.nodes.empty()) return {};
  job.wanted = static_cast<int>(run.wanted_workers.size());
  int begun = 0, possible = 0;
  for (const NodeStatus& node : run.nodes) {
    possible += static_cast<int>(node.workers.size());
    for (const WorkerStatus& worker : node.workers) add_worker(worker, job, begun);
  }
  job.is_starting = begun < std::min(job.wanted, possible);
  return {};
}

// Adds the last answers to jobs that are still there in the same life. Jobs without a request are
// away, or do not run any more.
void add_answers(Snapshot& snapshot) {
  for (const Answer& answer : snapshot.answers) {
    const auto job = std::find_if(
        snapshot.jobs.begin(), snapshot.jobs.end(),
        [&](const JobFacts& one) { return one.request.name == answer.allocation.name; });
    if (job == snapshot.jobs.end()) {
      JobFacts& away = snapshot.jobs.emplace_back();
      away.request.name = answer.allocation.name;
      away.place = answer.place;
      away.answer = answer.allocation;
      away.is_away = true;
    } else if (job->place == answer.place) {
      job->answer = answer.allocation;
    }
  }
}

Status add_speeds(Store& store, Snapshot& snapshot) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store.list(kSpeeds));
  for (const Entry& entry : entries) {
    const auto job = std::find_if(
        snapshot.jobs.begin(), snapshot.jobs.end(),
        [&](const JobFacts& one) { return entry.key == key_of(kSpeeds, one.request.name); });
    if (job == snapshot.jobs.end()) continue;
    auto speeds = parse_speeds(entry.value);
    if (speeds.ok()) job->speeds = std::move(*speeds);
    if (!speeds.ok()) {
      base::log_warning("autoscale: '{}': {}", entry.key, speeds.status().message());
    }
  }
  return {};
}

}  // namespace

Result<Snapshot> take_snapshot(Store& store) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store.list(kPrefix));
  Snapshot snapshot;
  for (const Entry& entry : entries) {
    if (entry.key.starts_with(kOffers)) {
      snapshot.nodes.push_back({entry.key.substr(kOffers.size()), offered(entry)});
    }
    if (entry.key.starts_with(kRequests)) {
      auto record = parse_request(entry.value);
      if (record.ok()) record->request.name = entry.key.substr(kRequests.size());
      const Status fits = record.ok() ? check_queued(record->request) : record.status();
      if (!fits.ok()) {
        base::log_warning("autoscale: '{}': {}", entry.key, fits.message());
        continue;
      }
      JobFacts& job = snapshot.jobs.emplace_back();
      job.request = std::move(record->request);
      job.place = record->place != 0 ? record->place : entry.revision;
    }
    if (entry.key == kAnswers) {
      auto answers = parse_answers(entry.value);
      if (answers.ok()) snapshot.answers = std::move(*answers);
      if (!answers.ok()) base::log_warning("autoscale: {}", answers.status().message());
      snapshot.answered = entry.revision;
    }
  }
  add_answers(snapshot);
  for (JobFacts& job : snapshot.jobs) FFDL_RETURN_IF_ERROR(add_run(store, job));
  FFDL_RETURN_IF_ERROR(add_speeds(store, snapshot));
  std::erase_if(snapshot.jobs, [](const JobFacts& job) { return job.is_away && job.wanted == 0; });
  std::sort(snapshot.nodes.begin(), snapshot.nodes.end(),
            [](const NodeWorkers& a, const NodeWorkers& b) { return a.node < b.node; });
  std::sort(snapshot.jobs.begin(), snapshot.jobs.end(),
            [](const JobFacts& a, const JobFacts& b) { return a.place < b.place; });
  return snapshot;
}

}  // namespace ffdl::cluster
