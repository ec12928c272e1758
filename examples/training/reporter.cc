#include "training/reporter.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "ffdl/version.h"

namespace training {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr std::size_t kBarWidthMax = 32;
constexpr double kPlainIntervalS = 2;

Json options_json(const TrainOptions& options) {
  return {{"learners", options.learners},   {"mini_batch", options.mini_batch},
          {"rule", options.rule},           {"learning_rate", options.learning_rate},
          {"epochs", options.epochs},       {"seed", options.seed},
          {"synchrony", options.synchrony}, {"staleness", options.staleness},
          {"threads", options.threads},     {"device", options.device},
          {"kill", options.kill},           {"data", options.data}};
}

Json subject_json(const Subject& subject) {
  Json json{{"role", subject.role}, {"pid", subject.pid}};
  if (subject.slot >= 0) json["slot"] = subject.slot;
  return json;
}

std::string name_of(const Subject& subject) {
  const std::string which = subject.slot >= 0 ? fmt::format(" {}", subject.slot) : "";
  return fmt::format("{}{} (pid {})", subject.role, which, subject.pid);
}

// Returns a text such as "0: 60 %, 1: 30 %, 2-3: 10 %".
std::string staleness_text(const ffdl::ParameterServerStats& stats) {
  const auto& histogram = stats.staleness;
  const auto total = std::accumulate(histogram.begin(), histogram.end(), uint64_t{0});
  std::string text;
  for (std::size_t bucket = 0; bucket < histogram.size(); ++bucket) {
    if (histogram[bucket] == 0) continue;
    const uint64_t low = bucket == 0 ? 0 : uint64_t{1} << (bucket - 1);
    const uint64_t high = bucket == 0 ? 0 : 2 * low - 1;
    text +=
        fmt::format("{}{}{}: {:.1f} %", text.empty() ? "" : ", ", low,
                    high > low ? fmt::format("-{}", high) : "",
                    100.0 * static_cast<double>(histogram[bucket]) / static_cast<double>(total));
  }
  return text;
}

// Returns "[####----] numbers", cut to the width of the terminal: a wrapped line could not be
// redrawn.
std::string with_bar(const std::string& numbers, double share) {
  winsize window{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
  const std::size_t columns = known ? window.ws_col - 1U : 79U;
  constexpr std::size_t kFrame = 3;  // brackets and blank
  if (columns <= numbers.size() + kFrame) return numbers.substr(0, columns);
  const std::size_t width = std::min(columns - numbers.size() - kFrame, kBarWidthMax);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return fmt::format("[{:-<{}}] {}", std::string(std::min(filled, width), '#'), width, numbers);
}

}  // namespace

class Reporter::Impl {
 public:
  Impl(const Example& example, const TrainOptions& options, std::FILE* file)
      : example_(example),
        options_(options),
        file_(file),
        terminal_(!options.json && isatty(STDOUT_FILENO) == 1) {}

  void event(std::string_view name, const Json& fields) {
    Json line{{"event", name}, {"t_s", std::round(seconds() * 1e4) / 1e4}};
    line.update(fields);
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    write(file_.get(), text);
    if (options_.json) write(stdout, text);
  }

  // Prints a line for people, above the progress bar, which is the last line of a terminal.
  void say(const std::string& text) {
    if (options_.json) return;
    write(stdout, fmt::format("{}{}\n", terminal_ ? "\r\x1b[K" : "", text));
  }

  // Leaves the bar in place for later output on standard error.
  void end_bar() {
    if (terminal_) write(stdout, "\n");
  }

  void show_progress(const Progress& progress) {
    if (options_.json) return;
    const std::string numbers =
        fmt::format("epoch {:.1f}/{}  {:.0f} samples/s  loss {:.4f}  val {:.1f} %  staleness {}",
                    progress.epoch, options_.epochs, progress.samples_per_s, progress.train_loss,
                    100 * progress.val_accuracy, progress.staleness_median);
    if (terminal_) {
      write(stdout, "\r\x1b[K" + with_bar(numbers, progress.epoch / options_.epochs));
    } else if (seconds() >= next_plain_s_) {
      next_plain_s_ = seconds() + kPlainIntervalS;
      say(fmt::format("{:5.1f} s  {}", seconds(), numbers));
    }
  }

  double seconds() const {
    return std::chrono::duration<double>(steady_clock::now() - start_).count();
  }

  const Example& example() const { return example_; }
  const TrainOptions& options() const { return options_; }

 private:
  static void write(std::FILE* file, const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), file);
    std::fflush(file);
  }

  const Example& example_;
  TrainOptions options_;
  struct FileClose {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, FileClose> file_;
  bool terminal_;
  steady_clock::time_point start_ = steady_clock::now();
  double next_plain_s_ = 0;
};

ffdl::Result<std::unique_ptr<Reporter>> Reporter::open(const Example& example,
                                                       const TrainOptions& options) {
  const auto path = std::filesystem::path(options.out) / "run.jsonl";
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  std::FILE* file = error ? nullptr : std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return ffdl::Status(ffdl::StatusCode::kUnavailable,
                        fmt::format("write '{}': {}; name another folder with --out", path.string(),
                                    error ? error.message() : std::strerror(errno)));
  }
  return std::unique_ptr<Reporter>(new Reporter(std::make_unique<Impl>(example, options, file)));
}

Reporter::Reporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reporter::~Reporter() = default;

double Reporter::seconds() const { return impl_->seconds(); }

void Reporter::started(const Task::Sizes& sizes, const std::string& segment) {
  impl_->event("start", {{"example", impl_->example().name},
                         {"sample_word", impl_->example().sample_word},
                         {"version", FFDL_VERSION_STRING},
                         {"segment", segment},
                         {"parameters", sizes.parameters},
                         {"train_samples", sizes.train},
                         {"validation_samples", sizes.validation},
                         {"test_samples", sizes.test},
                         {"options", options_json(impl_->options())}});
  impl_->say(fmt::format("{} training, {} validation and {} test {}; {} weights; {} learners",
                         sizes.train, sizes.validation, sizes.test, impl_->example().sample_word,
                         sizes.parameters, impl_->options().learners));
}

void Reporter::spawned(const Subject& subject) { impl_->event("spawn", subject_json(subject)); }

void Reporter::killed(const Subject& subject) {
  impl_->event("kill", subject_json(subject));
  impl_->say(fmt::format("killed {}", name_of(subject)));
}

void Reporter::died(const Subject& subject, const std::string& how) {
  Json fields = subject_json(subject);
  fields["how"] = how;
  impl_->event("death", fields);
  impl_->say(fmt::format("{} {}", name_of(subject), how));
}

void Reporter::recovered(const Subject& subject, double recovery_ms) {
  Json fields = subject_json(subject);
  fields["recovery_ms"] = recovery_ms;
  impl_->event("restart", fields);
  impl_->say(fmt::format("{} continues after {:.0f} ms", name_of(subject), recovery_ms));
}

void Reporter::progress(const Progress& progress) {
  impl_->event("progress", {{"epoch", progress.epoch},
                            {"samples", progress.samples},
                            {"samples_per_s", progress.samples_per_s},
                            {"train_loss", progress.train_loss},
                            {"val_loss", progress.val_loss},
                            {"val_accuracy", progress.val_accuracy},
                            {"staleness_median", progress.staleness_median}});
  impl_->show_progress(progress);
}

void Reporter::failed(const ffdl::Status& status) {
  impl_->event("failure", {{"reason", status.to_string()}});
  impl_->end_bar();
  fmt::print(stderr, "{}: {}\n", impl_->example().name, status.to_string());
}

void Reporter::finished(const Summary& summary) {
  const Ledger& ledger = summary.ledger;
  impl_->event("summary", {{"test_accuracy", summary.test_accuracy},
                           {"val_accuracy", summary.val_accuracy},
                           {"samples_per_s", summary.samples_per_s},
                           {"bytes_per_s", summary.bytes_per_s},
                           {"epochs", impl_->options().epochs},
                           {"seconds", summary.seconds},
                           {"samples", ledger.committed},
                           {"repeated", ledger.repeated},
                           {"missing", ledger.missing},
                           {"skipped", ledger.skipped},
                           {"gradients", summary.stats.version},
                           {"server_epoch", summary.stats.epoch},
                           {"recovered_folds", summary.stats.recoveries},
                           {"learners_reclaimed", summary.stats.learners_reclaimed},
                           {"staleness", summary.stats.staleness}});
  impl_->say(
      fmt::format("test accuracy {:.1f} % after {} epochs in {:.1f} s, {:.0f} samples/s, "
                  "{:.0f} MB/s through the server",
                  100 * summary.test_accuracy, impl_->options().epochs, summary.seconds,
                  summary.samples_per_s, summary.bytes_per_s / 1e6));
  impl_->say(fmt::format("ledger: {} samples committed, {} repeated, {} missing, {} skipped",
                         ledger.committed, ledger.repeated, ledger.missing, ledger.skipped));
  impl_->say("staleness of the gradients: " + staleness_text(summary.stats));
}

}  // namespace training
