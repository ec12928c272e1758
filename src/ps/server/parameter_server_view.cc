#include "base/errors.h"
#include "ps/segment/node_binding.h"
#include "ps/segment/open_waiting.h"
#include "ps/segment/pull.h"
#include "ps/segment/stats.h"

namespace ffdl {

class ParameterServerView::Impl {
 public:
  Impl(shm::Segment opened, ps::Region layout)
      : segment(std::move(opened)), region(layout), huge_pages(shm::read_huge_pages(segment)) {}
  const shm::Segment segment;
  const ps::Region region;
  const shm::HugePages huge_pages;
};

ParameterServerView::ParameterServerView(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParameterServerView::~ParameterServerView() = default;

Result<std::unique_ptr<ParameterServerView>> ParameterServerView::open(std::string_view name,
                                                                       Time deadline) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment, ps::open_waiting(name, deadline));
  FFDL_ASSIGN_OR_RETURN(ps::Region region, ps::read_region(segment));
  auto impl = std::make_unique<Impl>(std::move(segment), region);
  return std::unique_ptr<ParameterServerView>(new ParameterServerView(std::move(impl)));
}

uint64_t ParameterServerView::parameters() const { return impl_->region.config().parameters; }

ParameterServerStats ParameterServerView::stats() const {
  ParameterServerStats stats = ps::read_stats(impl_->region, impl_->segment.fd());
  stats.memory = ps::observe_memory(impl_->region, impl_->huge_pages);
  return stats;
}

Result<uint64_t> ParameterServerView::pull(std::span<float> weights, PullMode mode) const {
  FFDL_RETURN_IF_ERROR(ps::check_pull_size(impl_->region, weights.size()));
  return ps::pull_weights(impl_->region, weights, mode);
}

}  // namespace ffdl
