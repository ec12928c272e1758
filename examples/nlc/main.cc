// Short customer queries, sorted by intent: several processes, one shared-memory parameter server,
// and gradients that name only the rows of the embedding table that they change.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/learner.h"
#include "ffdl/sparse_gradient.h"
#include "nlc/corpus.h"
#include "nlc/features.h"
#include "nlc/model.h"
#include "training/example.h"

namespace nlc {
namespace {

constexpr float kDropout = 0.5F;  // of features, in training

class NlcTask final : public training::Task {
 public:
  explicit NlcTask(Corpus corpus) : corpus_(std::move(corpus)), model_(corpus_.labels.size()) {}

  Sizes sizes() const override {
    return {.train = corpus_.train.size(),
            .validation = corpus_.validation.size(),
            .test = corpus_.test.size(),
            .parameters = model_.parameters()};
  }

  // Every row and the head: however late the server is, nothing more can add up.
  uint32_t rows_max() const override { return kTableRows + 1; }

  void initialize(std::span<float> weights, uint64_t seed) const override {
    model_.initialize(weights, seed);
  }

  ffdl::Result<training::Step> step(ffdl::Learner& learner, const training::MiniBatch& mini_batch,
                                    ffdl::Time deadline) override {
    gather(mini_batch);
    FFDL_RETURN_IF_ERROR(learner.begin_mini_batch(deadline));
    const std::array<uint64_t, 1> whole{0};
    parameters_.rows.resize(features_.rows.size() * kWidth);
    parameters_.head.resize(model_.head_size());
    FFDL_RETURN_IF_ERROR(learner.pull_rows(0, kWidth, features_.rows, parameters_.rows).status());
    FFDL_RETURN_IF_ERROR(
        learner.pull_rows(model_.head_begin(), model_.head_size(), whole, parameters_.head)
            .status());
    const float loss = model_.gradient(features_, labels_, parameters_, gradient_);
    // Waits for the gradient before this one: added up while the server is late, they would be
    // fewer and larger steps than the learning rate is planned for.
    FFDL_RETURN_IF_ERROR(learner.flush(deadline));
    const std::array tables{ffdl::RowGradient{
        .table = 0, .row_size = kWidth, .rows = features_.rows, .values = gradient_.rows}};
    const std::array dense{
        ffdl::DenseGradient{.begin = model_.head_begin(), .values = gradient_.head}};
    FFDL_RETURN_IF_ERROR(
        learner.push_sparse({.tables = tables, .dense = dense}, mini_batch.range).status());
    const std::size_t floats = 2 * (parameters_.rows.size() + parameters_.head.size());
    return training::Step{.loss = loss, .bytes = floats * sizeof(float)};
  }

  training::Score validate(std::span<const float> weights) override {
    return model_.evaluate(weights, corpus_.validation);
  }
  training::Score test(std::span<const float> weights) override {
    return model_.evaluate(weights, corpus_.test);
  }

 private:
  void gather(const training::MiniBatch& mini_batch) {
    features_.clear();
    labels_.clear();
    for (const uint64_t sample : mini_batch.samples) {
      append_features(corpus_.train.texts[sample], features_);
      labels_.push_back(corpus_.train.labels[sample]);
    }
    layers::Random random(mini_batch.seed);
    drop_features(kDropout, random, features_);
  }

  const Corpus corpus_;
  Model model_;
  Features features_;  // of the mini-batch, and what else belongs to it
  std::vector<int> labels_;
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

// CLINC150 where the user has put the data sets, or nothing.
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
      .load = nlc::load};
  return training::run_example(nlc, argc, argv);
}
