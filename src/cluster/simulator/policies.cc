#include "cluster/simulator/policies.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "cluster/simulator/elastic_policy.h"

namespace ffdl::cluster {
namespace {

std::vector<size_t> in_order(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

// First come, first served: no job overtakes, and none is stopped.
class FixedPolicy : public Policy {
 public:
  explicit FixedPolicy(const ClusterOptions& options)
      : gpus_(options.nodes * options.gpus_per_node) {}

  Result<Decision> decide(std::span<SimJob* const> active, double, double) override {
    Decision decision{std::vector<int>(active.size()), in_order(active.size())};
    int free = gpus_;
    for (const SimJob* job : active) free -= job->workers();
    bool blocked = false;
    for (size_t i = 0; i < active.size(); ++i) {
      decision.workers[i] = active[i]->workers();
      if (decision.workers[i] > 0) continue;
      blocked = blocked || active[i]->request->workers > free;
      if (blocked) continue;
      decision.workers[i] = active[i]->request->workers;
      free -= decision.workers[i];
    }
    return decision;
  }

 private:
  const int gpus_;
};

// Least remaining time first, taken from the ground truth.
class ShortestFirstPolicy : public Policy {
 public:
  explicit ShortestFirstPolicy(const ClusterOptions& options) : options_(options) {}

  Result<Decision> decide(std::span<SimJob* const> active, double, double) override {
    Decision decision{std::vector<int>(active.size()), in_order(active.size())};
    std::vector<double> remaining;
    for (const SimJob* job : active) {
      const int workers = job->request->workers;
      remaining.push_back(
          job->remaining_s(packed(workers, options_.gpus_per_node),
                           job->application->limits().split(job->request->batch, workers)));
    }
    std::stable_sort(decision.order.begin(), decision.order.end(),
                     [&](size_t a, size_t b) { return remaining[a] < remaining[b]; });
    int free = options_.nodes * options_.gpus_per_node;
    for (const size_t i : decision.order) {
      if (active[i]->request->workers > free) continue;
      decision.workers[i] = active[i]->request->workers;
      free -= decision.workers[i];
    }
    return decision;
  }

 private:
  const ClusterOptions options_;
};

// Tiresias: a job that has had its share of service goes to a second queue, which is served after
// all of the first. Each queue is first come, first served, but a job that does not fit is passed
// over.
class TiresiasPolicy : public Policy {
 public:
  explicit TiresiasPolicy(const ClusterOptions& options)
      : gpus_(options.nodes * options.gpus_per_node) {}

  Result<Decision> decide(std::span<SimJob* const> active, double, double seconds) override {
    Decision decision{std::vector<int>(active.size()), {}, PlacementRule::kMostFree};
    decision.order = queue_up(active, seconds);
    int free = gpus_;
    for (const size_t i : decision.order) {
      const int wanted = active[i]->request->workers;
      State& state = states_[active[i]->index];
      state.running = wanted <= free;
      if (!state.running) continue;
      decision.workers[i] = wanted;
      free -= wanted;
    }
    return decision;
  }

 protected:
  static constexpr double kDemotionGpuSeconds = 16 * 3600;

  struct State {
    bool running = false;
    bool demoted = false;
    double served_s = 0;
    uint64_t place = 0;  // position in its queue
  };

  // Counts service, demotes, and lists the jobs in the order in which they are served.
  std::vector<size_t> queue_up(std::span<SimJob* const> active, double seconds) {
    std::vector<size_t> order = in_order(active.size());
    for (const SimJob* job : active) {
      const auto [entry, is_new] = states_.try_emplace(job->index);
      State& state = entry->second;
      if (is_new) state.place = ++places_;
    }
    for (const SimJob* job : active) {
      State& state = states_[job->index];
      if (!state.running) continue;
      state.served_s += seconds;
      if (!state.demoted && state.served_s * job->request->workers >= kDemotionGpuSeconds) {
        state.demoted = true;
        state.place = ++places_;
      }
    }
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const State& left = states_[active[a]->index];
      const State& right = states_[active[b]->index];
      return left.demoted != right.demoted ? right.demoted : left.place < right.place;
    });
    return order;
  }

  const int gpus_;
  std::map<uint32_t, State> states_;  // keyed by job
  uint64_t places_ = 0;
};

// Tiresias with two more rules. When many jobs wait, demoted jobs shrink to their fewest workers.
// Free workers go, one by one, to the jobs that gain most speed.
class ElasticTiresiasPolicy : public TiresiasPolicy {
 public:
  explicit ElasticTiresiasPolicy(const ClusterOptions& options)
      : TiresiasPolicy(options), options_(options) {}

  Result<Decision> decide(std::span<SimJob* const> active, double, double seconds) override {
    Decision decision{std::vector<int>(active.size()), queue_up(active, seconds)};
    int free = gpus_;
    size_t waiting = 0;
    const auto serve = [&](size_t i, int workers) {
      decision.workers[i] = workers;
      free -= workers;
    };
    for (const size_t i : decision.order) {
      if (active[i]->request->workers <= free) {
        serve(i, active[i]->request->workers);
      } else {
        ++waiting;
      }
    }
    if (waiting > kWaitingMax) {
      for (size_t i = 0; i < active.size(); ++i) {
        const int least = active[i]->application->least_workers(active[i]->request->batch);
        if (states_[active[i]->index].demoted && decision.workers[i] > least) {
          serve(i, least - decision.workers[i]);
          decision.workers[i] = least;
        }
      }
      for (const size_t i : decision.order) {
        if (decision.workers[i] == 0 && active[i]->request->workers <= free) {
          serve(i, active[i]->request->workers);
        }
      }
    }
    expand(active, free, decision.workers);
    for (size_t i = 0; i < active.size(); ++i) {
      states_[active[i]->index].running = decision.workers[i] > 0;
    }
    return decision;
  }

 private:
  static constexpr size_t kWaitingMax = 10;

  double speed(const SimJob& job, int workers) const {
    if (workers == 0) return 0;
    if (job.application->is_table()) {
      const int least = job.application->least_workers(job.request->batch);
      const auto few = job.application->step_time(std::array{least}, job.request->batch);
      const auto many = job.application->step_time(std::array{workers}, job.request->batch);
      return few && many ? few->step_s / many->step_s : 0;
    }
    const BatchRule rule{TrainingBatch::kWorkload, PlanObjective::kThroughput};
    const int nodes = (workers + options_.gpus_per_node - 1) / options_.gpus_per_node;
    const auto one = best_configuration(job.estimator->model(), rule.question(job), 1, 1);
    const auto many =
        best_configuration(job.estimator->model(), rule.question(job), nodes, workers);
    return one && many ? many->rate / one->rate : 0;
  }

  void expand(std::span<SimJob* const> active, int free, std::vector<int>& workers) const {
    std::vector<Growth> growths;
    for (size_t i = 0; i < active.size(); ++i) growths.push_back(growth(*active[i], workers[i]));
    while (free > 0) {
      const auto best =
          std::max_element(growths.begin(), growths.end(),
                           [](const Growth& a, const Growth& b) { return a.gain < b.gain; });
      if (best == growths.end() || best->gain <= 0) return;
      const auto i = static_cast<size_t>(best - growths.begin());
      if (best->workers > free) {
        *best = {};
        continue;
      }
      workers[i] += best->workers;
      free -= best->workers;
      *best = growth(*active[i], workers[i]);
    }
  }

  struct Growth {
    int workers = 0;
    double gain = 0;  // gain of each worker
  };

  // Returns the growth by one worker, or to the next size of a table. A job of unknown speed
  // neither starts nor grows here. No job grows beyond twice its request.
  Growth growth(const SimJob& job, int workers) const {
    const bool is_table = job.application->is_table();
    const int most = is_table ? 2 * job.request->workers : workers + 1;
    if (!is_table && !job.estimator->knows_anything()) return {};
    if (workers >= 2 * job.request->workers) return {};
    for (int larger = workers + 1; larger <= most; ++larger) {
      const double faster = speed(job, larger);
      if (is_table && faster == 0) continue;
      return {larger - workers, (faster - speed(job, workers)) / (larger - workers)};
    }
    return {};
  }

  const ClusterOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_policy(const ClusterOptions& options) {
  switch (options.policy) {
    case ClusterPolicy::kFixed:
      return std::make_unique<FixedPolicy>(options);
    case ClusterPolicy::kTiresias:
      return std::make_unique<TiresiasPolicy>(options);
    case ClusterPolicy::kElasticTiresias:
      return std::make_unique<ElasticTiresiasPolicy>(options);
    case ClusterPolicy::kShortestFirst:
      return std::make_unique<ShortestFirstPolicy>(options);
    case ClusterPolicy::kElastic:
      break;
  }
  return std::make_unique<ElasticPolicy>(options);
}

}  // namespace ffdl::cluster
