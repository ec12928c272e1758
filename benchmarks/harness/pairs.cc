#include "benchmarks/harness/pairs.h"

namespace ffdl::bench {

Result<std::vector<PairTimes>> run_pairs(const Turn& subject, const Turn& limit, int count,
                                         int warm_up, const std::function<void(double)>& done) {
  std::vector<PairTimes> pairs;
  for (int i = 0; i < warm_up + count; ++i) {
    PairTimes times;
    if (subject_begins(i)) {
      FFDL_ASSIGN_OR_RETURN(times.subject, subject());
      FFDL_ASSIGN_OR_RETURN(times.limit, limit());
    } else {
      FFDL_ASSIGN_OR_RETURN(times.limit, limit());
      FFDL_ASSIGN_OR_RETURN(times.subject, subject());
    }
    if (i >= warm_up) pairs.push_back(times);
    done(static_cast<double>(i + 1) / (warm_up + count));
  }
  return pairs;
}

}  // namespace ffdl::bench
