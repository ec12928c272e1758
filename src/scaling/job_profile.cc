#include "scaling/job_profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "ffdl/launch/running_job.h"
#include "scaling/profile_sums.h"
#include "scaling/scaling_records.h"

namespace ffdl::scaling {
namespace {

// The wait between checks for a stop and for the end of the job.
constexpr Duration kProfileLook = std::chrono::milliseconds(500);

class Profiler {
 public:
  Profiler(Store& store, Runtime& runtime, const JobProfileOptions& options, const StopToken& stop)
      : store_(store), runtime_(runtime), options_(options), stop_(stop) {}

  Result<JobProfile> run() {
    profile_.job = options_.job;
    const auto old = store_.get(measured_key(options_.job));
    if (old.ok()) seen_ = old->revision;  // ignores an earlier run of this name, or an earlier size
    for (int workers = options_.max_workers; workers >= options_.min_workers; --workers) {
      if (workers < options_.max_workers) {
        FFDL_RETURN_IF_ERROR(scale_job(store_, options_.job, workers));
      }
      FFDL_RETURN_IF_ERROR(measure(workers));
    }
    profile_.global_batch = profile_.points.front().step.batch;
    return std::move(profile_);
  }

 private:
  Status measure(int workers) {
    ProfileSums sums(workers, options_.steps);
    while (!sums.is_done()) {
      if (stop_.stop_requested()) {
        return base::make_error(StatusCode::kCancelled,
                                "profile job '{}': it was stopped, or has ended,{}; let it train "
                                "for longer",
                                options_.job, so_far(workers));
      }
      const auto read =
          wait_measurement(store_, options_.job, seen_, runtime_.now() + kProfileLook);
      if (read.status().code() == StatusCode::kTimeout) {
        FFDL_RETURN_IF_ERROR(expect_running(workers));
        continue;
      }
      FFDL_RETURN_IF_ERROR(read.status());
      seen_ = read->revision;
      sums.add(*read);
    }
    profile_.points.push_back(sums.point());
    return {};
  }

  Status expect_running(int workers) {
    FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store_, options_.job));
    if (!run.nodes.empty()) return {};
    return base::make_error(StatusCode::kNotFound,
                            "profile job '{}': it has ended,{}; let it train for longer",
                            options_.job, so_far(workers));
  }

  std::string so_far(int workers) const {
    if (profile_.points.empty()) {
      return fmt::format(" before it was measured with {} workers; its sessions need a StepMetrics",
                         workers);
    }
    return fmt::format(" before it was measured with {} workers; it was with {} to {}", workers,
                       profile_.points.back().step.workers, profile_.points.front().step.workers);
  }

  Store& store_;
  Runtime& runtime_;
  const JobProfileOptions options_;
  const StopToken stop_;
  Revision seen_ = 0;
  JobProfile profile_;
};

}  // namespace

Result<JobProfile> profile_job(Store& store, Runtime& runtime, const JobProfileOptions& options,
                               const StopToken& stop) {
  if (options.min_workers < 1 || options.max_workers < options.min_workers || options.steps == 0) {
    return base::invalid_argument(
        "profile job '{}': {} to {} workers, {} steps; give 1 <= min_workers <= max_workers, and 1 "
        "step or more",
        options.job, options.min_workers, options.max_workers, options.steps);
  }
  return Profiler(store, runtime, options, stop).run();
}

std::string profile_json(const JobProfile& profile) {
  using Json = nlohmann::ordered_json;
  Json points = Json::array();
  for (const ProfilePoint& point : profile.points) {
    points.push_back({{"workers", point.step.workers},
                      {"batch", point.step.batch},
                      {"steps", point.step.steps},
                      {"step_s", point.step.step_s},
                      {"communication_share", point.communication_share()},
                      {"samples_per_s", point.step.samples_per_s()},
                      {"host_memory_bytes", point.host_memory_bytes}});
  }
  const Json document = {{"format", "ffdl-profile-1"},
                         {"job", profile.job},
                         {"global_batch", profile.global_batch},
                         {"points", std::move(points)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ffdl::scaling
