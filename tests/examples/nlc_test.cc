#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "examples/synthetic_sentences.h"
#include "nlc/corpus.h"
#include "nlc/features.h"
#include "nlc/model.h"
#include "support/temp_folder.h"

namespace nlc {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

class LoadCorpus : public ::testing::Test {
 protected:
  ffdl::Result<Corpus> load(const std::string& text) const {
    return load_corpus(folder_.write("data.json", text));
  }

  std::string error_of(const std::string& text) const {
    const auto corpus = load(text);
    EXPECT_EQ(corpus.status().code(), ffdl::StatusCode::kCorrupt);
    return std::string(corpus.status().message());
  }

  const ffdl::TempFolder folder_;
};

TEST_F(LoadCorpus, NumbersTheLabelsByTheAlphabet) {
  const auto corpus = load(R"({"train": [["b1", "pay"], ["a1", "call"]], "oos_val": [],
                               "val": [["b2", "pay"]], "test": [["a2", "call"]]})");
  ASSERT_TRUE(corpus.ok()) << corpus.status().to_string();
  EXPECT_THAT(corpus->labels, ElementsAre("call", "pay"));
  EXPECT_THAT(corpus->train.texts, ElementsAre("b1", "a1"));
  EXPECT_THAT(corpus->train.labels, ElementsAre(1, 0));
  EXPECT_THAT(corpus->validation.labels, ElementsAre(1));
  EXPECT_THAT(corpus->test.labels, ElementsAre(0));
}

TEST_F(LoadCorpus, MissingFile) {
  const auto corpus = load_corpus("/nowhere/data.json");
  EXPECT_EQ(corpus.status().code(), ffdl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(corpus.status().message()),
              HasSubstr("'/nowhere/data.json': No such file"));
}

TEST_F(LoadCorpus, WhatIsWrongIsNamed) {
  const json good = synthetic_sentences(2);
  EXPECT_THAT(error_of("{\"train\": [[\"a\", \"b\"]"), HasSubstr("data.json': [json.exception"));
  EXPECT_THAT(error_of("[]"), HasSubstr("a JSON array instead of an object"));
  const auto with = [&](const char* key, const json& value) {
    json wrong = good;
    wrong[key] = value;
    return error_of(wrong.dump());
  };
  for (const char* key : {"train", "val", "test"}) {
    json wrong = good;
    wrong.erase(key);
    EXPECT_THAT(error_of(wrong.dump()), HasSubstr("the key '" + std::string(key) + "' is missing"));
    EXPECT_THAT(with(key, json::array()),
                HasSubstr("the key '" + std::string(key) + "' is an empty list"));
    EXPECT_THAT(with(key, 7), HasSubstr("is a JSON number instead of a list"));
    EXPECT_THAT(with(key, json::parse(R"([["text", "label0"], ["text", 1]])")),
                HasSubstr("[text, label] at index 1"));
  }
  EXPECT_THAT(with("val", json::parse(R"([["text", "unknown"]])")),
              HasSubstr("the label 'unknown' at index 0"));
}

std::vector<uint64_t> rows_of(const std::string& text) {
  Features features;
  append_features(text, features);
  return features.rows;
}

TEST(AppendFeatures, WordsPairsAndRunsOfLetters) {
  // 2 words, 2 pairs and the end; runs of <pay> (4 + 3 + 2) and of <me> (3 + 2 + 1).
  EXPECT_EQ(rows_of("pay me").size(), 2U + 2 + 1 + 9 + 6);
  EXPECT_EQ(rows_of("Pay  ME"), rows_of("pay me"));
  EXPECT_NE(rows_of("me pay"), rows_of("pay me"));
  EXPECT_EQ(rows_of("pay me?").size(), rows_of("pay me ?").size());
  EXPECT_EQ(rows_of("").size(), 1U);
}

TEST(AppendFeatures, RowsLieInTheTableAndAreSpreadOverIt) {
  std::set<uint64_t> words;
  for (int i = 0; i < 1000; ++i) {
    const auto rows = rows_of("w" + std::to_string(i));
    EXPECT_THAT(rows, Each(Lt(kTableRows)));
    words.insert(rows.front());
  }
  EXPECT_GT(words.size(), 980U);
  EXPECT_LT(*words.begin(), kTableRows / 100);
  EXPECT_GT(*words.rbegin(), kTableRows - kTableRows / 100);
}

TEST(AppendFeatures, EachKindWeighsTheSameAndLongTextsAreCut) {
  Features features;
  append_features("pay me", features);
  append_features(std::string(100000, 'x'), features);
  float squares = 0;
  for (std::size_t i = 0; i < features.ends[0]; ++i) {
    squares += features.factors[i] * features.factors[i];
  }
  EXPECT_NEAR(squares, 3, 1e-5);
  EXPECT_EQ(features.ends[1] - features.ends[0], kFeaturesMax);
  EXPECT_EQ(features.rows.size(), features.factors.size());
}

TEST(DropFeatures, KeepsTheTextsAndTheExpectedSum) {
  Features features;
  for (int i = 0; i < 50; ++i) append_features("how much is left on my account", features);
  const Features whole = features;
  layers::Random random(1);
  drop_features(0.5F, random, features);
  ASSERT_EQ(features.texts(), whole.texts());
  EXPECT_EQ(features.ends.back(), features.rows.size());
  const auto kept = static_cast<double>(features.rows.size());
  EXPECT_NEAR(kept / static_cast<double>(whole.rows.size()), 0.5, 0.05);
  for (std::size_t text = 1; text < features.ends.size(); ++text) {
    EXPECT_LT(features.ends[text - 1], features.ends[text]);
  }
  EXPECT_EQ(std::set(features.factors.begin(), features.factors.end()).size(), 3U);
  EXPECT_EQ(*std::max_element(features.factors.begin(), features.factors.end()),
            2 * *std::max_element(whole.factors.begin(), whole.factors.end()));
}

TEST(Model, ItsGradientIsThatOfTheLoss) {
  constexpr std::size_t kLabels = 5;
  Model model(kLabels);
  Features batch;
  append_features("what is my balance", batch);
  append_features("call my bank", batch);
  const std::vector<int> labels{3, 0};
  layers::Random random(7);
  const auto draw = [&](std::vector<float>& values, std::size_t size) {
    values.resize(size);
    for (float& value : values) value = random.uniform(-0.5F, 0.5F);
  };
  Model::Parameters parameters;
  draw(parameters.rows, batch.rows.size() * kWidth);
  draw(parameters.head, model.head_size());
  Model::Parameters gradient;
  Model::Parameters ignored;
  model.gradient(batch, labels, parameters, gradient);
  ASSERT_EQ(gradient.rows.size(), parameters.rows.size());
  ASSERT_EQ(gradient.head.size(), parameters.head.size());

  const auto check = [&](std::vector<float>& values, const std::vector<float>& expected) {
    constexpr float kStep = 1e-2F;
    for (std::size_t i = 0; i < values.size(); i += 37) {
      const float value = values[i];
      values[i] = value + kStep;
      const float above = model.gradient(batch, labels, parameters, ignored);
      values[i] = value - kStep;
      const float below = model.gradient(batch, labels, parameters, ignored);
      values[i] = value;
      EXPECT_NEAR((above - below) / (2 * kStep), expected[i], 2e-3) << i;
    }
  };
  check(parameters.rows, gradient.rows);
  check(parameters.head, gradient.head);
}

TEST(Model, EvaluationIsThatOfTheGatheredParameters) {
  Model model(2);
  std::vector<float> weights(model.parameters());
  model.initialize(weights, 1);
  const Sentences sentences{.texts = std::vector<std::string>(100, "call my bank"),
                            .labels = std::vector<int>(100, 1)};
  Features batch;
  append_features(sentences.texts[0], batch);
  Model::Parameters parameters;
  for (const uint64_t row : batch.rows) {
    for (int i = 0; i < kWidth; ++i) {
      parameters.rows.push_back(weights[row * kWidth + static_cast<std::size_t>(i)]);
    }
  }
  parameters.head.assign(weights.begin() + model.head_begin(), weights.end());
  Model::Parameters ignored;
  const float loss = model.gradient(batch, std::vector{1}, parameters, ignored);
  const training::Score score = model.evaluate(weights, sentences);
  EXPECT_NEAR(score.loss, loss, 1e-5);
  EXPECT_EQ(score.accuracy, loss < std::log(2.0F) ? 1.0F : 0.0F);
}

}  // namespace
}  // namespace nlc
