#include "ps/pending_gradient.h"

namespace ffdl::ps {

void PendingGradient::add(const SampleRange& named, uint64_t version, bool skip) {
  if (empty()) base_version = version;
  ++(skip ? skipped : mini_batches);
  samples += named.end - named.begin;
  if (named.begin == named.end) return;
  if (continues_last(named)) {
    ranges.back().end = named.end;
  } else {
    ranges.push_back(named);
  }
}

}  // namespace ffdl::ps
