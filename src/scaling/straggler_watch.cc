#include <cstring>
#include <utility>

#include "base/errors.h"
#include "ffdl/tuning/stragglers.h"
#include "scaling/detect_straggler.h"

namespace ffdl {
namespace {

class MeasuringWatch final : public StragglerWatch {
 public:
  MeasuringWatch(const StragglerOptions& options, Runtime& runtime)
      : options_(options), rules_{options.factor, options.steps}, runtime_(runtime) {}

  std::vector<Straggler> stragglers() const override {
    std::vector<Straggler> all;
    for (size_t rank = 0; rank < runs_.size(); ++rank) {
      if (runs_[rank].is_straggler(rules_)) all.push_back(straggler(rank));
    }
    return all;
  }

  size_t record_bytes() const override { return sizeof(double); }
  void write_record(std::span<std::byte> record) override {
    const Duration spent = runtime_.now() - began_;
    const double seconds = std::chrono::duration<double>(spent).count();
    std::memcpy(record.data(), &seconds, sizeof seconds);
  }

  void applied(uint64_t step, const StepRecords& records) override {
    step_ = step;
    std::vector<scaling::MemberTime> times;
    for (int rank = 0; rank < records.size(); ++rank) {
      scaling::MemberTime time = {records.samples(rank), 0};
      std::memcpy(&time.seconds, records.of(rank).data(), sizeof time.seconds);
      times.push_back(time);
    }
    scaling::add_step(rules_, times, runs_);
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

  void world_changed(const World& world) override {
    members_.clear();
    for (const Member& member : world.members) members_.push_back({member.id, member.incarnation});
    runs_.assign(members_.size(), {});
    is_told_.assign(members_.size(), false);
    began_ = runtime_.now();
  }

  void stable(uint64_t /*step*/) override {}
  // Saves nothing: its data belongs to one world, and every member enters a world without any.
  std::vector<std::byte> save() const override { return {}; }
  Status restore(std::span<const std::byte> /*bytes*/) override { return {}; }

 private:
  Straggler straggler(size_t rank) const {
    return {members_[rank], runs_[rank].mean_factor(), runs_[rank].steps, step_};
  }

  const StragglerOptions options_;
  const scaling::SlowRules rules_;
  Runtime& runtime_;
  Time began_{};  // start of this member's computation in the present step
  // Data of this world, equal at all members:
  std::vector<Member> members_;
  std::vector<scaling::SlowRun> runs_;
  std::vector<bool> is_told_;
  uint64_t step_ = 0;
};

}  // namespace

Result<std::unique_ptr<StragglerWatch>> StragglerWatch::create(const StragglerOptions& options,
                                                               Runtime& runtime) {
  if (!(options.factor > 1)) {
    return base::invalid_argument(
        "watch for stragglers: 'factor' is {}; give a multiple of the median, above 1",
        options.factor);
  }
  if (options.steps == 0) {
    return base::invalid_argument("watch for stragglers: 'steps' is 0; give 1 or more");
  }
  return std::unique_ptr<StragglerWatch>(std::make_unique<MeasuringWatch>(options, runtime));
}

}  // namespace ffdl
