#include "nlc/device/gpu_worker.h"

#include <utility>

#include "ffdl/ps/learner.h"

namespace nlc {

using ffdl::Result;
using ffdl::Status;
using training::Step;

namespace {

constexpr uint64_t kHeadBegin = uint64_t{kTableRows} * kWidth;
constexpr uint64_t kWhole[] = {0};  // all of a table of one row

}  // namespace

GpuWorker::GpuWorker(Parts parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<GpuWorker>> GpuWorker::create(Parts parts) {
  auto worker = std::unique_ptr<GpuWorker>(new GpuWorker(std::move(parts)));
  const Parts& made = worker->parts_;
  for (Turn& each : worker->turns_) {
    FFDL_ASSIGN_OR_RETURN(each.model,
                          GpuModel::create(*made.gpu, made.libraries,
                                           {.labels = made.labels, .texts_max = made.texts_max}));
  }
  return worker;
}

// Begins with the processor's longest work, at the same time as the push of the mini-batch before
// the last and the pull of the last.
Result<std::optional<Step>> GpuWorker::step(const training::MiniBatch& mini_batch,
                                            ffdl::Time deadline) {
  gather(*parts_.sentences, mini_batch, gathered_);
  planner_.make(gathered_, planned_);
  if (!parts_.read_ahead) {
    FFDL_RETURN_IF_ERROR(learner().begin_mini_batch(deadline));
    FFDL_RETURN_IF_ERROR(start_pull(mini_batch));
    FFDL_RETURN_IF_ERROR(push_next(deadline));
    return finish_push(deadline);
  }
  std::optional<Step> done;
  if (pushed_ < computed_) {
    FFDL_ASSIGN_OR_RETURN(done, finish_push(deadline));
  }
  if (computed_ < taken_) FFDL_RETURN_IF_ERROR(push_next(deadline));
  FFDL_RETURN_IF_ERROR(start_pull(mini_batch));
  return done;
}

Result<std::optional<Step>> GpuWorker::finish(ffdl::Time deadline) {
  if (pushed_ == computed_) {
    if (computed_ == taken_) return std::optional<Step>();
    FFDL_RETURN_IF_ERROR(push_next(deadline));
  }
  return finish_push(deadline);
}

Status GpuWorker::start_pull(const training::MiniBatch& mini_batch) {
  Turn& next = turn(taken_);
  std::swap(next.plan, planned_);
  next.range = mini_batch.range;
  FFDL_RETURN_IF_ERROR(next.model->upload(next.plan));
  ++taken_;
  if (parts_.learner == nullptr) return {};
  const ffdl::RowWeights tables[] = {
      {.table = 0, .row_size = kWidth, .rows = next.plan.rows, .values = next.model->rows()},
      {.table = kHeadBegin,
       .row_size = next.model->head().size(),
       .rows = kWhole,
       .values = next.model->head()}};
  return parts_.learner->start_pull_rows(tables, next.model->stream());
}

Status GpuWorker::push_next(ffdl::Time deadline) {
  Turn& next = turn(computed_);
  if (parts_.learner != nullptr) {
    FFDL_RETURN_IF_ERROR(parts_.learner->finish_pull(deadline).status());
  }
  FFDL_RETURN_IF_ERROR(next.model->compute());
  if (parts_.learner != nullptr) FFDL_RETURN_IF_ERROR(start_push(next, deadline));
  ++computed_;
  return {};
}

Status GpuWorker::start_push(const Turn& next, ffdl::Time deadline) {
  // Waits for the previous gradient, as on the processor. Gradients that add up while the server is
  // late would be fewer and larger steps than the learning rate is planned for.
  FFDL_RETURN_IF_ERROR(learner().flush(deadline));
  const ffdl::RowGradient table{.table = 0,
                                .row_size = kWidth,
                                .rows = next.plan.rows,
                                .values = next.model->row_gradients()};
  const ffdl::PartGradient part{.begin = kHeadBegin, .values = next.model->head_gradient()};
  return parts_.learner->start_push(ffdl::Gradient::sparse({&table, 1}, {&part, 1}), next.range,
                                    next.model->stream());
}

Result<std::optional<Step>> GpuWorker::finish_push(ffdl::Time deadline) {
  const Turn& last = turn(pushed_);
  if (parts_.learner != nullptr) {
    FFDL_RETURN_IF_ERROR(parts_.learner->finish_push(deadline).status());
  } else {
    FFDL_RETURN_IF_ERROR(parts_.gpu->wait(last.model->stream()));
  }
  ++pushed_;
  const std::size_t floats = 2 * (last.model->rows().size() + last.model->head().size());
  return std::optional(
      Step{.end = last.range.end, .loss = last.model->loss(), .bytes = floats * sizeof(float)});
}

}  // namespace nlc
