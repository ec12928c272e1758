#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <thread>

#include "benchmarks/harness/folder.h"
#include "benchmarks/harness/memory.h"
#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/suite.h"
#include "benchmarks/rescale/twins.h"
#include "benchmarks/training/training_twin.h"
#include "ffdl/checkpoint.h"

// './dev bench training': the cost of checkpoints, noise and virtual workers for a training.
namespace ffdl::bench {
namespace {

// A folder that is removed with this object.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

void stall_rows(Suite& suite) {
  const std::string name = "training/checkpoint_stall";
  const std::string cpu_name = "training/checkpoint_cpu_ms";
  if (!suite.wants(name) && !suite.wants(cpu_name)) return;
  const Shape shape = suite.options().smoke ? Shape{1, 4} : Shape{10, 32};
  const auto twins = Twins::start(shape);
  if (!twins.ok()) return suite.failed(name, twins.status());
  if (suite.wants(cpu_name)) {
    suite.measure(ValueSpec{
        .name = cpu_name,
        .unit = "ms",
        .sample = [&]() -> Result<double> {
          FFDL_ASSIGN_OR_RETURN(const double before, (*twins)->train("cpu"));
          FFDL_RETURN_IF_ERROR((*twins)->train("with").status());
          FFDL_ASSIGN_OR_RETURN(const double after, (*twins)->train("cpu"));
          return 1e3 * (after - before);
        },
        .note = "processor time of the thread that writes a checkpoint, in one of 2 workers: 40 MB "
                "that are hashed, written and synced"});
  }
  if (!suite.wants(name)) return;
  suite.measure(PairSpec{
      .name = name,
      .unit = "ms",
      .figure = [](double seconds) { return 1e3 * seconds; },
      .subject = [&] { return (*twins)->train("with"); },
      .limit = [&] { return (*twins)->train("bare"); },
      .limit_is = "the same ten steps without checkpoints",
      .target = Target{.bound = 0.98},
      .note = "ten steps of 2 workers, 80 MB of state, 32 rows a step, with one checkpoint"});
}

void noise_row(Suite& suite) {
  const std::string name = "training/noise_scale_cost";
  if (!suite.wants(name)) return;
  const Shape shape = suite.options().smoke ? Shape{1, 4} : Shape{10, 32};
  const auto twins = Twins::start(shape);
  if (!twins.ok()) return suite.failed(name, twins.status());
  suite.measure(PairSpec{
      .name = name,
      .unit = "ms",
      .figure = [](double seconds) { return 1e3 * seconds; },
      .subject = [&] { return (*twins)->train("noise"); },
      .limit = [&] { return (*twins)->train("bare"); },
      .limit_is = "the same ten steps without a measurement",
      .target = Target{.bound = 0.99},
      .note = "ten steps of 2 workers, 40 MB of gradients, 32 rows a step, with one measurement"});
}

void virtual_rows(Suite& suite) {
  for (const int ranks : {1, 2, 4}) {
    const std::string name = fmt::format("training/virtual_cost/{}", ranks);
    if (!suite.wants(name)) continue;
    const Shape shape = suite.options().smoke ? Shape{1, 4} : Shape{10, 8};
    const auto twins = Twins::start(shape, ranks);
    if (!twins.ok()) return suite.failed(name, twins.status());
    suite.measure(PairSpec{
        .name = name,
        .unit = "ms",
        .figure = [](double seconds) { return 1e3 * seconds; },
        .subject = [&] { return (*twins)->train("virtual"); },
        .limit = [&] { return (*twins)->train("whole"); },
        .limit_is = "the same steps where each worker computes its share of the rows at once",
        .note = fmt::format("two steps of {} workers that carry {} virtual ones of 8 rows each; 40 "
                            "MB of gradients",
                            ranks, kVirtualWorkers)});
  }
}

// Returns the seconds to write a file of these bytes in sequence, until it is on the disk in place
// of the previous one.
Result<double> write_plainly(const std::string& path, std::span<const std::byte> bytes) {
  int error = 0;
  const double seconds = seconds_of([&] {
    const std::string fresh = path + ".fresh";
    const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    constexpr size_t kPiece = size_t{1} << 20;
    for (size_t at = 0; at < bytes.size() && error == 0;) {
      const ssize_t put = ::write(fd, bytes.data() + at, std::min(kPiece, bytes.size() - at));
      if (put < 0) error = errno;
      at += static_cast<size_t>(std::max<ssize_t>(put, 0));
    }
    if (error == 0 && (::fsync(fd) != 0 || std::rename(fresh.c_str(), path.c_str()) != 0)) {
      error = errno;
    }
    ::close(fd);
  });
  if (error == 0) return seconds;
  return Status(StatusCode::kUnavailable, fmt::format("write '{}': error {}", path, error));
}

void write_row(Suite& suite) {
  const std::string name = "training/checkpoint_write";
  const auto made = make_folder();
  if (!made.ok()) return suite.failed(name, made.status());
  const Folder folder(*made);
  const size_t size = suite.options().smoke ? size_t{1} << 20 : size_t{256} << 20;
  Memory memory(size);
  std::fill(memory.floats().begin(), memory.floats().end(), 1.0F);
  CheckpointOptions options;
  options.folder = folder.path() + "/checkpoints";
  options.keep_last = 1;
  const Buffer tensor = {memory.floats().data(), memory.floats().size()};
  uint64_t step = 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(memory.floats()));
  const auto plainly = [&] { return write_plainly(folder.path() + "/plain", bytes); };
  const auto figure = [&](double seconds) { return 1e-9 * static_cast<double>(size) / seconds; };
  const int pairs = suite.options().smoke ? 3 : 40;
  suite.self_check(PairSpec{.name = "training",
                            .unit = "GB/s",
                            .figure = figure,
                            .limit = plainly,
                            .limit_is = "a plain file, written and synced",
                            .pairs = pairs});
  if (!suite.wants(name)) return;
  suite.measure(PairSpec{
      .name = name,
      .unit = "GB/s",
      .figure = figure,
      .subject = [&]() -> Result<double> {
        ++step;
        Status outcome;
        const double seconds =
            seconds_of([&] { outcome = save_checkpoint(options, {&tensor, 1}, step).status(); });
        if (!outcome.ok()) return outcome;
        return seconds;
      },
      .limit = plainly,
      .limit_is = "the same bytes written to one file in pieces of 1 MiB, and synced",
      .pairs = pairs,
      .target = Target{.bound = 0.8},
      .note = "256 MiB by one process, until it is published and the one before is removed"});
}

// Writes a checkpoint of two members into the folder.
Status write_by_two(const Shape& shape, const CheckpointOptions& checkpoints) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("mem://", system_runtime()));
  Status outcomes[2];
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[rank] = [&]() -> Status {
        DenseModel model(shape);
        SessionOptions options;
        options.self.id = std::to_string(rank);
        options.membership.min_workers = 2;
        options.checkpoints = checkpoints;
        FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
        model.compute();
        FFDL_RETURN_IF_ERROR(session->end_step(1).status());
        FFDL_RETURN_IF_ERROR(session->finish());
        return session->checkpoint_status();
      }();
    });
  }
  threads.clear();
  FFDL_RETURN_IF_ERROR(std::move(outcomes[0]));
  return std::move(outcomes[1]);
}

void resume_row(Suite& suite) {
  const std::string name = "training/resume_ms";
  if (!suite.wants(name)) return;
  const auto made = make_folder();
  if (!made.ok()) return suite.failed(name, made.status());
  const Folder folder(*made);
  const Shape shape = suite.options().smoke ? Shape{1, 4} : Shape{10, 32};
  CheckpointOptions checkpoints;
  checkpoints.folder = folder.path();
  checkpoints.every_steps = 1;
  const Status written = write_by_two(shape, checkpoints);
  if (!written.ok()) return suite.failed(name, written);
  checkpoints.resume = true;
  DenseModel model(shape);
  suite.measure(ValueSpec{
      .name = name,
      .unit = "ms",
      .sample = [&]() -> Result<double> {
        FFDL_ASSIGN_OR_RETURN(const auto store, open_store("mem://", system_runtime()));
        SessionOptions options;
        options.self.id = "alone";
        options.membership.gather = {};
        options.checkpoints = checkpoints;
        Result<std::unique_ptr<Session>> session = Status(StatusCode::kCancelled, "not yet");
        const double seconds = seconds_of([&] { session = Session::open(options, model, *store); });
        if (!session.ok()) return session.status();
        if ((*session)->step() == 0) return Status(StatusCode::kInternal, "it began from nothing");
        return 1e3 * seconds;
      },
      .note = "80 MB of state, written by 2 workers, until Session::open of one has returned; the "
              "files are in the system's cache"});
}

// Runs a child of this program: a member that trains, or the store.
int play_training_role(const std::vector<std::string>& arguments) {
  if (arguments[0] == "server") {
    return play_store_server(arguments[1]).ok() ? 0 : 1;
  }
  const Status played = play_training_twin({arguments.begin() + 1, arguments.end()});
  if (!played.ok()) fmt::print(stderr, "{}\n", played.to_string());
  return played.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 3 && std::string_view(argv[1]) == "--role") {
    return play_training_role({argv + 2, argv + argc});
  }
  return Suite::run("training", argc, argv, [](Suite& suite) {
    write_row(suite);
    stall_rows(suite);
    noise_row(suite);
    virtual_rows(suite);
    resume_row(suite);
  });
}
