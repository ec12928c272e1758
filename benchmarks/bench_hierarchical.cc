#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string_view>

#include "benchmarks/harness/resident.h"
#include "benchmarks/harness/suite.h"
#include "benchmarks/harness/two_hosts.h"
#include "benchmarks/reference.h"
#include "ffdl/communicator.h"

// './dev bench hierarchical': four ranks on two hosts, which are network namespaces. Shared memory
// inside a host and gloo between hosts, against gloo between all ranks.
namespace ffdl::bench {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);
constexpr int kRanks = 4;
constexpr std::array<uint64_t, 3> kSizes = {1U << 20, 16U << 20, 100U << 20};

// What rank 0 reads and tells the others.
struct Command {
  int64_t two_levels = 0;
  int64_t sums = 0;  // 0: the end
  int64_t bytes = 0;
};

class Rank {
 public:
  static Result<std::unique_ptr<Rank>> connect(int rank, const std::string& folder,
                                               const std::string& address) {
    FFDL_ASSIGN_OR_RETURN(auto store, open_store("file://" + folder, system_runtime()));
    World world = {.generation = 1, .rank = rank, .members = {}};
    for (int i = 0; i < kRanks; ++i) world.members.push_back({fmt::format("rank{}", i), 1});
    FFDL_ASSIGN_OR_RETURN(
        auto two_levels,
        connect_communicator(world, *store, deadline_in(kPatience),
                             {.backend = Backend::kHierarchical, .address = address}));
    world.generation = 2;
    FFDL_ASSIGN_OR_RETURN(auto gloo,
                          connect_communicator(world, *store, deadline_in(kPatience),
                                               {.backend = Backend::kGloo, .address = address}));
    return std::unique_ptr<Rank>(new Rank(std::move(two_levels), std::move(gloo)));
  }

  // Takes turns until the harness has no more.
  Status play() {
    if (rank() == 0) tell("ready");
    while (true) {
      Command turn = rank() == 0 ? read_command() : Command{};
      FFDL_RETURN_IF_ERROR(
          gloo_->broadcast({&turn, sizeof turn / sizeof(int64_t), DType::kInt64}, 0, kNoDeadline));
      if (turn.sums == 0) return {};
      FFDL_ASSIGN_OR_RETURN(const double seconds, take(turn));
      if (rank() == 0) tell(fmt::format("{}", seconds));
    }
  }

 private:
  Rank(std::unique_ptr<Communicator> two_levels, std::unique_ptr<Communicator> gloo)
      : two_levels_(std::move(two_levels)), gloo_(std::move(gloo)) {}

  int rank() const { return gloo_->world().rank; }
  static void tell(const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  static Command read_command() {
    Command turn;
    std::string line;
    if (std::getline(std::cin, line)) {
      std::istringstream(line) >> turn.two_levels >> turn.sums >> turn.bytes;
    }
    return turn;
  }

  Result<double> take(const Command& turn) {
    Communicator& communicator = turn.two_levels != 0 ? *two_levels_ : *gloo_;
    values_.resize(static_cast<size_t>(turn.bytes) / sizeof(float));
    Status status;
    const double seconds = seconds_of([&] {
      for (int64_t i = 0; i < turn.sums && status.ok(); ++i) {
        std::ranges::fill(values_, 1.0F);
        status = communicator.all_reduce({values_.data(), values_.size()}, ReduceOp::kSum,
                                         deadline_in(kPatience));
      }
    });
    FFDL_RETURN_IF_ERROR(std::move(status));
    const bool right = std::ranges::all_of(values_, [](float value) { return value == kRanks; });
    return right ? Result<double>(seconds) : Status(StatusCode::kInternal, "a wrong sum");
  }

  const std::unique_ptr<Communicator> two_levels_;
  const std::unique_ptr<Communicator> gloo_;
  std::vector<float> values_;
};

int play_rank(int rank, const std::string& folder, const std::string& address) {
  auto made = Rank::connect(rank, folder, address);
  const Status status = made.ok() ? (*made)->play() : made.status();
  if (!status.ok()) fmt::print(stderr, "rank {}: {}\n", rank, status.to_string());
  return status.ok() ? 0 : 1;
}

// The harness starts this program again for it.
int play_hosts() {
  std::string folder = (std::filesystem::temp_directory_path() / "ffdl-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const auto codes = run_two_hosts([&](int host, const std::string& address) {
    const pid_t second = fork();
    if (second == 0) _exit(play_rank(2 * host + 1, folder, address));
    const int code = play_rank(2 * host, folder, address);
    int outcome = 0;
    waitpid(second, &outcome, 0);
    return code;
  });
  std::filesystem::remove_all(folder);
  return codes == std::array<int, 2>{0, 0} ? 0 : 1;
}

void hierarchical_rows(Suite& suite) {
  auto hosts = Resident::start_self({"--role", "hosts"});
  const auto ready = hosts.ok() ? (*hosts)->ask("", std::chrono::seconds(60)) : hosts.status();
  if (!ready.ok()) {
    return suite.missing("hierarchical",
                         "no two hosts (network namespaces need root, 'ip' and a "
                         "build with gloo): " +
                             ready.status().to_string());
  }
  for (const uint64_t bytes : kSizes) {
    if (suite.options().smoke && bytes != kSizes[0]) continue;
    const int sums = static_cast<int>(std::max<uint64_t>(1, (16U << 20) / bytes));
    const auto turn = [&](int two_levels) {
      return [&, two_levels] {
        return (*hosts)->ask_number(fmt::format("{} {} {}", two_levels, sums, bytes));
      };
    };
    suite.measure({.name = fmt::format("hierarchical/all_reduce/{}/{}", kRanks, size_name(bytes)),
                   .unit = "ms",
                   .figure = [sums](double seconds) { return seconds / sums * 1e3; },
                   .subject = turn(1),
                   .limit = turn(0),
                   .limit_is = "gloo between all ranks",
                   .pairs = 30,
                   .target = bytes == kSizes[1] ? std::optional(Target{1.5}) : std::nullopt,
                   .note = "2 ranks on each of 2 network namespaces; each buffer is rewritten "
                           "before each sum, on the clock"});
  }
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role") return play_hosts();
  SuiteOptions options;
  std::string command;
  if (const auto code = Suite::parse("hierarchical", argc, argv, options, command)) return *code;
  auto suite = Suite::open("hierarchical", command, options);
  if (!suite.ok()) {
    fmt::print(stderr, "{}\n", suite.status().to_string());
    return 1;
  }
  hierarchical_rows(*suite);
  return suite->finish();
}
