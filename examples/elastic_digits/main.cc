// Trains on handwritten digits with workers that join, die and leave.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "elastic_digits/supervisor.h"

int main(int argc, char** argv) {
  elastic::Options options;
  if (const char* file = std::getenv("FFDL_DIGITS_FILE")) options.data = file;
  CLI::App app(
      "Trains a network on handwritten digits twice: with one worker, and with 1 to 2 to 1, one of "
      "them\nkilled. Both see the same mini-batches in the same order.",
      "elastic_digits");
  app.footer(
      "examples:\n"
      "  elastic_digits --data digits.csv.gz            both trainings, and how they compare\n"
      "  elastic_digits --epochs 200 --out long-run     a longer one\n"
      "  elastic_digits --json                          the comparison for programs");
  app.add_option("--data", options.data,
                 "digits.csv.gz of scikit-learn, in sklearn/datasets/data; FFDL_DIGITS_FILE can "
                 "name it too")
      ->required(options.data.empty());
  app.add_option("--out", options.out, "a folder for run.jsonl; its contents are removed")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "number of times that each training image is used")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--mini-batch", options.mini_batch, "images per step, over all workers")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "learning rate of the momentum rule")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the first weights and of the order of images")
      ->capture_default_str();
  app.add_flag("--json", options.json, "the comparison as one line of JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return elastic::supervise(options);
}
