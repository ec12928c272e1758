// One learner of `nlc --device cuda` without a server: the same mini-batches on the same GPU,
// without pulls of weights and pushes of gradients. It is the reference for the learners of a
// server; gpu_table.py starts as many of these at once.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "nlc/corpus.h"
#include "nlc/device/gpu_worker.h"
#include "training/shares.h"
#include "training/supervisor.h"

namespace nlc {
namespace {

using ffdl::Status;

struct Options {
  std::string data;
  uint64_t mini_batch = 16;
  uint64_t mini_batches = 1000;
};

Status run(GpuWorker& worker, const std::vector<uint64_t>& order, const Options& options,
           uint64_t mini_batches) {
  std::vector<uint64_t> samples;
  for (uint64_t number = 0; number < mini_batches; ++number) {
    const uint64_t begin = number * options.mini_batch;
    samples.clear();
    for (uint64_t i = begin; i < begin + options.mini_batch; ++i) {
      samples.push_back(order[i % order.size()]);
    }
    const training::MiniBatch batch{samples,
                                    {.begin = begin, .end = begin + options.mini_batch},
                                    layers::Random(number).next()};
    FFDL_RETURN_IF_ERROR(worker.step(batch, {}).status());
  }
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const auto rest, worker.finish({}));
    if (!rest) return {};
  }
}

Status measure(const Options& options) {
  FFDL_ASSIGN_OR_RETURN(const Corpus corpus, load_corpus(options.data));
  FFDL_ASSIGN_OR_RETURN(auto gpu, open_gpu());
  FFDL_ASSIGN_OR_RETURN(const Libraries libraries, Libraries::load());
  FFDL_ASSIGN_OR_RETURN(const auto worker,
                        GpuWorker::create({.sentences = &corpus.train,
                                           .labels = static_cast<uint32_t>(corpus.labels.size()),
                                           .gpu = std::move(gpu),
                                           .libraries = libraries,
                                           .learner = nullptr,
                                           .texts_max = static_cast<uint32_t>(options.mini_batch),
                                           .read_ahead = true}));
  const std::vector<uint64_t> order =
      training::epoch_order(1, 0, {.train_samples = corpus.train.size()});
  constexpr uint64_t kWarmUp = 50;  // kernels are loaded at first use
  FFDL_RETURN_IF_ERROR(run(*worker, order, options, kWarmUp));
  fmt::print("ready\n");
  std::fflush(stdout);
  static_cast<void>(std::getchar());  // makes all learners begin together
  const auto begin = std::chrono::steady_clock::now();
  FFDL_RETURN_IF_ERROR(run(*worker, order, options, options.mini_batches));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("{}\n",
             static_cast<double>(options.mini_batches * options.mini_batch) / seconds.count());
  return {};
}

}  // namespace
}  // namespace nlc

int main(int argc, char** argv) {
  nlc::Options options;
  CLI::App app("Measures the samples per second of a learner on a GPU without a server.",
               "nlc_alone");
  const auto versions = [] {
    const auto libraries = nlc::Libraries::load();
    return libraries.ok() ? libraries->versions() : libraries.status().to_string();
  };
  app.set_version_flag(
      "--versions", versions,
      "print the versions of cuBLAS and cuDNN, or the reason that they are missing");
  app.add_option("--data", options.data, "the data of nlc")->required();
  app.add_option("--mini-batch", options.mini_batch, "samples per gradient")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--mini-batches", options.mini_batches, "number of mini-batches to measure")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const ffdl::Status status = nlc::measure(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "nlc_alone: {}\n", status.to_string());
  return status.code() == ffdl::StatusCode::kUnimplemented ? training::kExitNoDevice : 1;
}
