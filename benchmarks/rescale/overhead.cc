#include "benchmarks/rescale/rows.h"
#include "benchmarks/rescale/twins.h"

namespace ffdl::bench {
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
      .subject = [&] { return (*twins)->train("session"); },
      .limit = [&] { return (*twins)->train("bare"); },
      .limit_is = "the same step without a session: gradients, all_reduce, apply()",
      .pairs = 2000,
      .target = Target{.bound = 0.99},
      .note = "a step of 2 workers by a session, 80 MB of state, 8 rows a step; nothing changes"});
}

}  // namespace ffdl::bench
