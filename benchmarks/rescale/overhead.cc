#include <fmt/format.h>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/rows.h"
#include "benchmarks/rescale/store_folder.h"
#include "benchmarks/rescale/trainer.h"

namespace ffdl::bench {
namespace {

// Two members of one job, and of a communicator beside it.
class Twins {
 public:
  static Result<std::unique_ptr<Twins>> start(const Shape& shape) {
    FFDL_ASSIGN_OR_RETURN(auto store, StoreFolder::start());
    auto twins = std::unique_ptr<Twins>(new Twins(std::move(store)));
    for (int rank = 0; rank < 2; ++rank) {
      FFDL_ASSIGN_OR_RETURN(
          twins->ranks_[rank],
          Resident::start_self({"--role", "twin", twins->store_->path(), std::to_string(rank),
                                std::to_string(shape.layers), std::to_string(shape.rows)}));
    }
    for (const auto& rank : twins->ranks_) FFDL_RETURN_IF_ERROR(rank->ask("").status());
    return twins;
  }
  ~Twins() {
    for (const auto& rank : ranks_) {
      if (rank) rank->kill_now();
    }
  }
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;

  // Seconds of one step, of the first rank.
  Result<double> step(const std::string& how) {
    for (const auto& rank : ranks_) FFDL_RETURN_IF_ERROR(rank->tell(how));
    FFDL_ASSIGN_OR_RETURN(const double seconds, ranks_[0]->ask_number(""));
    FFDL_RETURN_IF_ERROR(ranks_[1]->ask("").status());
    return seconds;
  }

 private:
  explicit Twins(std::unique_ptr<StoreFolder> store) : store_(std::move(store)) {}

  const std::unique_ptr<StoreFolder> store_;
  std::unique_ptr<Resident> ranks_[2];
};

}  // namespace

void overhead_row(Suite& suite) {
  const std::string name = "rescale/idle_overhead";
  if (!suite.wants(name)) return;
  const Shape shape = suite.options().smoke ? Shape{1, 4} : Shape{10, 8};
  const auto twins = Twins::start(shape);
  if (!twins.ok()) return suite.failed(name, twins.status());
  suite.measure(PairSpec{
      .name = name,
      .unit = "ms",
      .figure = [](double seconds) { return 1e3 * seconds; },
      .subject = [&] { return (*twins)->step("session"); },
      .limit = [&] { return (*twins)->step("bare"); },
      .limit_is = "the same step without a session: gradients, all_reduce, apply()",
      .pairs = 2000,
      .target = Target{.bound = 0.99},
      .note = "a step of 2 workers by a session, 80 MB of state, 8 rows a step; nothing changes"});
}

}  // namespace ffdl::bench
