#include "training/worker.h"

#include <utility>

namespace training {
namespace {

using ffdl::Result;

class HostWorker final : public Worker {
 public:
  HostWorker(Task& task, std::unique_ptr<ffdl::Learner> learner)
      : task_(task), learner_(std::move(learner)) {}

  ffdl::Learner& learner() override { return *learner_; }
  Result<std::optional<Step>> step(const MiniBatch& mini_batch, ffdl::Time deadline) override {
    FFDL_ASSIGN_OR_RETURN(Step step, task_.step(*learner_, mini_batch, deadline));
    step.end = mini_batch.range.end;
    return std::optional(step);
  }
  Result<std::optional<Step>> finish(ffdl::Time) override { return std::optional<Step>(); }

 private:
  Task& task_;
  const std::unique_ptr<ffdl::Learner> learner_;
};

}  // namespace

Result<std::unique_ptr<Worker>> Task::attach_device_worker(const Workplace&, ffdl::Time) {
  return ffdl::Status(ffdl::StatusCode::kUnimplemented,
                      "train on a GPU: this example computes on the processor alone; leave "
                      "--device out");
}

Result<std::unique_ptr<Worker>> attach_host_worker(Task& task, const Workplace& workplace,
                                                   ffdl::Time deadline) {
  FFDL_ASSIGN_OR_RETURN(
      auto learner, ffdl::Learner::attach(workplace.segment, deadline, {.slot = workplace.slot}));
  std::unique_ptr<Worker> worker = std::make_unique<HostWorker>(task, std::move(learner));
  return worker;
}

}  // namespace training
