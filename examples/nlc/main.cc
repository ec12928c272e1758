// Sorts short customer queries by intent. Several processes train with one shared-memory parameter
// server. Their gradients name only the rows of the embedding table that they change.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/ps/learner.h"
#include "nlc/corpus.h"
#include "nlc/device/gpu.h"
#include "nlc/device/gpu_worker.h"
#include "nlc/device/libraries.h"
#include "nlc/features.h"
#include "nlc/gather.h"
#include "nlc/model.h"
#include "training/example.h"
#include "training/worker.h"

namespace nlc {
namespace {

class NlcTask final : public training::Task {
 public:
  explicit NlcTask(Corpus corpus) : corpus_(std::move(corpus)), model_(corpus_.labels.size()) {}

  Sizes sizes() const override {
    return {.train = corpus_.train.size(),
            .validation = corpus_.validation.size(),
            .test = corpus_.test.size(),
            .parameters = model_.parameters()};
  }

  // Every row and the head: no more can add up, however late the server is.
  uint32_t rows_max() const override { return kTableRows + 1; }

  void initialize(std::span<float> weights, uint64_t seed) const override {
    model_.initialize(weights, seed);
  }

  ffdl::Result<training::Step> step(ffdl::Learner& learner, const training::MiniBatch& mini_batch,
                                    ffdl::Time deadline) override {
    gather(corpus_.train, mini_batch, gathered_);
    const Features& features = gathered_.features;
    FFDL_RETURN_IF_ERROR(learner.begin_mini_batch(deadline));
    const std::array<uint64_t, 1> whole{0};
    parameters_.rows.resize(features.rows.size() * kWidth);
    parameters_.head.resize(model_.head_size());
    const std::array wanted{
        ffdl::RowWeights{
            .table = 0, .row_size = kWidth, .rows = features.rows, .values = parameters_.rows},
        ffdl::RowWeights{.table = model_.head_begin(),
                         .row_size = model_.head_size(),
                         .rows = whole,
                         .values = parameters_.head}};
    FFDL_RETURN_IF_ERROR(learner.pull_rows(wanted).status());
    const float loss = model_.gradient(features, gathered_.labels, parameters_, gradient_);
    // Waits for the previous gradient. Gradients that add up while the server is late would be
    // fewer and larger steps than the learning rate is planned for.
    FFDL_RETURN_IF_ERROR(learner.flush(deadline));
    const std::array tables{ffdl::RowGradient{
        .table = 0, .row_size = kWidth, .rows = features.rows, .values = gradient_.rows}};
    const std::array parts{
        ffdl::PartGradient{.begin = model_.head_begin(), .values = gradient_.head}};
    FFDL_RETURN_IF_ERROR(
        learner.push(ffdl::Gradient::sparse(tables, parts), mini_batch.range).status());
    const std::size_t floats = 2 * (parameters_.rows.size() + parameters_.head.size());
    return training::Step{.loss = loss, .bytes = floats * sizeof(float)};
  }

  training::Score validate(std::span<const float> weights) override {
    return model_.evaluate(weights, corpus_.validation);
  }
  training::Score test(std::span<const float> weights) override {
    return model_.evaluate(weights, corpus_.test);
  }

  ffdl::Result<std::unique_ptr<training::Worker>> attach_device_worker(
      const training::Workplace& workplace, ffdl::Time deadline) override {
    FFDL_ASSIGN_OR_RETURN(auto gpu, open_gpu());
    FFDL_ASSIGN_OR_RETURN(const Libraries libraries, Libraries::load());
    FFDL_ASSIGN_OR_RETURN(
        auto learner,
        ffdl::Learner::attach(workplace.segment, deadline, {.slot = workplace.slot, .device = -1}));
    FFDL_ASSIGN_OR_RETURN(
        std::unique_ptr<training::Worker> worker,
        GpuWorker::create({.sentences = &corpus_.train,
                           .labels = static_cast<uint32_t>(corpus_.labels.size()),
                           .gpu = std::move(gpu),
                           .libraries = libraries,
                           .learner = std::move(learner),
                           .texts_max = static_cast<uint32_t>(workplace.mini_batch),
                           .read_ahead = !workplace.waits}));
    return worker;
  }

 private:
  const Corpus corpus_;
  Model model_;
  Gathered gathered_;  // the mini-batch and its features
  Model::Parameters parameters_;
  Model::Parameters gradient_;
};

ffdl::Result<std::unique_ptr<training::Task>> load(const std::string& path) {
  FFDL_ASSIGN_OR_RETURN(Corpus corpus, load_corpus(path));
  std::unique_ptr<training::Task> task = std::make_unique<NlcTask>(std::move(corpus));
  return task;
}

float default_learning_rate(ffdl::UpdateRuleKind kind) {
  switch (kind) {
    case ffdl::UpdateRuleKind::kSgd:
      return 1.0F;
    case ffdl::UpdateRuleKind::kMomentum:
    case ffdl::UpdateRuleKind::kNesterov:
      return 0.1F;
    case ffdl::UpdateRuleKind::kAdagrad:
      return 0.05F;
    default:
      return 0.003F;
  }
}

// Checks all that --device cuda needs on this machine.
ffdl::Status find_device() {
  FFDL_RETURN_IF_ERROR(open_gpu().status());
  return Libraries::load().status();
}

// Returns the path of CLINC150 in the user's folder of data sets, or an empty text.
std::string default_data() {
  const char* folder = std::getenv("FFDL_DATA_DIR");
  if (folder == nullptr) return "";
  return std::filesystem::path(folder) / "clinc150" / "data_full.json";
}

}  // namespace
}  // namespace nlc

int main(int argc, char** argv) {
  const training::Example nlc{
      .name = "nlc",
      .description = "Sorts short customer queries by intent: several processes, one server.",
      .data_help =
          "sentences and labels as in CLINC150's data_full.json, which is in the public "
          "repository github.com/clinc/oos-eval, folder data; "
          "FFDL_DATA_DIR/clinc150/data_full.json is found without --data",
      .sample_word = "sentences",
      .defaults = {.mini_batch = 16, .epochs = 10, .data = nlc::default_data()},
      .learning_rate = nlc::default_learning_rate,
      .load = nlc::load,
      .find_device = nlc::find_device};
  return training::run_example(nlc, argc, argv);
}
