// Trains on handwritten digits by several processes and one shared-memory parameter server.
#include <cstdlib>

#include "digits/dataset.h"
#include "digits/model.h"
#include "training/example.h"

namespace digits {
namespace {

class DigitsTask final : public training::Task {
 public:
  explicit DigitsTask(Split split) : split_(std::move(split)), weights_(model_.parameters()) {}

  Sizes sizes() const override {
    return {.train = split_.train.size(),
            .validation = split_.validation.size(),
            .test = split_.test.size(),
            .parameters = model_.parameters()};
  }

  void initialize(std::span<float> weights, uint64_t seed) const override {
    model_.initialize(weights, seed);
  }

  ffdl::Result<training::Step> step(ffdl::Learner& learner, const training::MiniBatch& mini_batch,
                                    ffdl::Time deadline) override {
    samples_.clear();
    for (const uint64_t sample : mini_batch.samples) {
      samples_.append(split_.train.image(sample), split_.train.labels[sample]);
    }
    FFDL_ASSIGN_OR_RETURN(const auto gradient, learner.gradient_slot(deadline));
    FFDL_RETURN_IF_ERROR(learner.pull(weights_).status());
    const float loss = model_.gradient(weights_, samples_, gradient);
    FFDL_RETURN_IF_ERROR(learner.push(ffdl::Gradient::slot(), mini_batch.range).status());
    return training::Step{.loss = loss, .bytes = 2 * weights_.size() * sizeof(float)};
  }

  training::Score validate(std::span<const float> weights) override {
    return model_.evaluate(weights, split_.validation);
  }
  training::Score test(std::span<const float> weights) override {
    return model_.evaluate(weights, split_.test);
  }

 private:
  const Split split_;
  Model model_;
  std::vector<float> weights_;
  Samples samples_;  // the samples of the mini-batch
};

ffdl::Result<std::unique_ptr<training::Task>> load(const std::string& path) {
  FFDL_ASSIGN_OR_RETURN(const Samples all, load_samples(path));
  FFDL_ASSIGN_OR_RETURN(Split split, split_samples(all));
  std::unique_ptr<training::Task> task = std::make_unique<DigitsTask>(std::move(split));
  return task;
}

float default_learning_rate(ffdl::UpdateRuleKind kind) {
  switch (kind) {
    case ffdl::UpdateRuleKind::kSgd:
      return 0.05F;
    case ffdl::UpdateRuleKind::kMomentum:
    case ffdl::UpdateRuleKind::kNesterov:
    case ffdl::UpdateRuleKind::kAdagrad:
      return 0.01F;
    default:
      return 0.002F;
  }
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  const char* file = std::getenv("FFDL_DIGITS_FILE");
  const training::Example digits{
      .name = "digits",
      .description = "Trains a network on handwritten digits: several processes, one server.",
      .data_help =
          "digits.csv.gz of scikit-learn, in sklearn/datasets/data; FFDL_DIGITS_FILE can name it "
          "too",
      .sample_word = "images",
      .defaults = {.data = file == nullptr ? "" : file},
      .learning_rate = digits::default_learning_rate,
      .load = digits::load};
  return training::run_example(digits, argc, argv);
}
