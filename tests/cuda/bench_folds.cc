#include "cuda/bench_folds.h"

#include <fmt/format.h>

#include <memory>
#include <thread>
#include <vector>

#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"

namespace ffdl::bench {
namespace {

constexpr Duration kFoldPatience = std::chrono::seconds(60);
constexpr int kThreads = 4;

// Owns a server and learners whose gradients are already in their slots, so that a turn measures
// the server.
class Folds {
 public:
  static Result<std::unique_ptr<Folds>> start(uint64_t parameters, int learners,
                                              std::optional<int> device) {
    auto folds = std::make_unique<Folds>();
    FFDL_ASSIGN_OR_RETURN(folds->server_,
                          ParameterServer::create({.parameters = parameters,
                                                   .rule = {.kind = UpdateRuleKind::kAdam},
                                                   .non_finite = NonFinite::kAccept,
                                                   .threads = kThreads,
                                                   .learners_max = learners,
                                                   .device = device}));
    FFDL_RETURN_IF_ERROR(folds->server_->start());
    for (int l = 0; l < learners; ++l) {
      FFDL_ASSIGN_OR_RETURN(folds->learners_.emplace_back(),
                            Learner::attach(*folds->server_, deadline_in(kFoldPatience)));
    }
    return folds;
  }

  // Publishes a gradient of every learner. Returns the seconds until all are folded.
  Result<double> fold() {
    Status status;
    const double seconds = seconds_of([&] { status = publish_and_wait(); });
    FFDL_RETURN_IF_ERROR(std::move(status));
    return seconds;
  }

 private:
  Status publish_and_wait() {
    const uint64_t all = server_->version() + learners_.size();
    for (const auto& learner : learners_) {
      FFDL_RETURN_IF_ERROR(learner->gradient_slot(deadline_in(kFoldPatience)).status());
      const auto own = static_cast<uint32_t>(learner->slot());
      FFDL_ASSIGN_OR_RETURN(const uint64_t begin, learner->pushed(own));
      FFDL_RETURN_IF_ERROR(
          learner->push(Gradient::slot(), {.partition = own, .begin = begin, .end = begin + 1})
              .status());
    }
    const Time end = deadline_in(kFoldPatience);
    while (server_->version() < all) {
      if (std::chrono::steady_clock::now() > end) {
        return Status(StatusCode::kTimeout, "fold gradients: not all are folded");
      }
      std::this_thread::yield();
    }
    return {};
  }

  std::unique_ptr<ParameterServer> server_;
  std::vector<std::unique_ptr<Learner>> learners_;
};

Status add_row(Suite& suite, int learners) {
  const std::string name = fmt::format("cuda/fold/{}", learners);
  if (!suite.wants(name)) return {};
  const uint64_t parameters = suite.options().smoke ? 1 << 14 : 1 << 24;
  FFDL_ASSIGN_OR_RETURN(const auto on_device, Folds::start(parameters, learners, -1));
  FFDL_ASSIGN_OR_RETURN(const auto on_processor, Folds::start(parameters, learners, std::nullopt));
  suite.measure(PairSpec{.name = name,
                         .unit = "gradients/s",
                         .figure = [learners](double seconds) { return learners / seconds; },
                         .subject = [&] { return on_device->fold(); },
                         .limit = [&] { return on_processor->fold(); },
                         .limit_is = fmt::format("the same server on {} threads", kThreads),
                         .pairs = 40});
  return {};
}

}  // namespace

void add_fold_rows(Suite& suite) {
  for (const int learners : {1, 2, 4, 8}) {
    if (const Status added = add_row(suite, learners); !added.ok()) {
      suite.failed(fmt::format("cuda/fold/{}", learners), added);
    }
  }
}

}  // namespace ffdl::bench
