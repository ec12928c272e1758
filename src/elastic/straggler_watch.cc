#include "ffdl/straggler_watch.h"

#include <cstring>
#include <utility>

#include "base/errors.h"
#include "elastic/detect_straggler.h"

namespace ffdl {

class StragglerWatch::Impl {
 public:
  Impl(const StragglerWatchOptions& options, Runtime& runtime)
      : options_(options), rules_{options.factor, options.steps}, runtime_(runtime) {}

  std::vector<Straggler> stragglers() const {
    std::vector<Straggler> all;
    for (size_t rank = 0; rank < runs_.size(); ++rank) {
      if (runs_[rank].is_straggler(rules_)) all.push_back(straggler(rank));
    }
    return all;
  }

  void describe(std::span<std::byte> record) {
    const Duration spent = runtime_.now() - began_;
    const double seconds = std::chrono::duration<double>(spent).count();
    std::memcpy(record.data(), &seconds, sizeof seconds);
  }

  void applied(uint64_t step, const StepRecords& records) {
    step_ = step;
    std::vector<elastic::MemberTime> times;
    for (int rank = 0; rank < records.size(); ++rank) {
      elastic::MemberTime time = {records.samples(rank), 0};
      std::memcpy(&time.seconds, records.of(rank).data(), sizeof time.seconds);
      times.push_back(time);
    }
    elastic::add_step(rules_, times, runs_);
    for (size_t rank = 0; rank < runs_.size(); ++rank) {
      if (!runs_[rank].is_straggler(rules_)) {
        is_told_[rank] = false;
      } else if (!is_told_[rank]) {
        is_told_[rank] = true;
        if (options_.on_straggler) options_.on_straggler(straggler(rank));
      }
    }
    began_ = runtime_.now();
  }

  void world_changed(const World& world) {
    members_.clear();
    for (const Member& member : world.members) members_.push_back({member.id, member.incarnation});
    runs_.assign(members_.size(), {});
    is_told_.assign(members_.size(), false);
    began_ = runtime_.now();
  }

 private:
  Straggler straggler(size_t rank) const {
    return {members_[rank], runs_[rank].mean_factor(), runs_[rank].steps, step_};
  }

  const StragglerWatchOptions options_;
  const elastic::SlowRules rules_;
  Runtime& runtime_;
  Time began_{};  // of what this member computes for the present step
  // Of this world, and equal at all members:
  std::vector<Member> members_;
  std::vector<elastic::SlowRun> runs_;
  std::vector<bool> is_told_;
  uint64_t step_ = 0;
};

StragglerWatch::StragglerWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StragglerWatch::~StragglerWatch() = default;

Result<std::unique_ptr<StragglerWatch>> StragglerWatch::create(const StragglerWatchOptions& options,
                                                               Runtime& runtime) {
  if (!(options.factor > 1)) {
    return base::invalid_argument(
        "watch for stragglers: 'factor' is {}; give how many times the median is slow, above 1",
        options.factor);
  }
  if (options.steps == 0) {
    return base::invalid_argument("watch for stragglers: 'steps' is 0; give 1 or more");
  }
  auto impl = std::make_unique<Impl>(options, runtime);
  return std::unique_ptr<StragglerWatch>(new StragglerWatch(std::move(impl)));
}

std::vector<Straggler> StragglerWatch::stragglers() const { return impl_->stragglers(); }
size_t StragglerWatch::record_bytes() const { return sizeof(double); }
void StragglerWatch::describe(std::span<std::byte> record) { impl_->describe(record); }
void StragglerWatch::applied(uint64_t step, const StepRecords& records) {
  impl_->applied(step, records);
}
void StragglerWatch::world_changed(const World& world) { impl_->world_changed(world); }
void StragglerWatch::stable(uint64_t /*step*/) {}
// All that it knows is of one world, and every member comes into a world with nothing.
std::vector<std::byte> StragglerWatch::save() const { return {}; }
Status StragglerWatch::restore(std::span<const std::byte> /*bytes*/) { return {}; }

}  // namespace ffdl
