#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string_view>

#include "benchmarks/harness/folder.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/harness/source_folder.h"
#include "benchmarks/harness/suite.h"
#include "benchmarks/harness/two_hosts.h"
#include "benchmarks/reference.h"
#include "ffdl/comm/communicator.h"

// './dev bench hierarchical': four ranks on two hosts, which are network namespaces. Compares
// shared memory inside a host and TCP between hosts with TCP between all ranks: ours and PyTorch's
// gloo.
namespace ffdl::bench {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);
constexpr int kRanks = 4;
constexpr int kWarmUps = 2;
const std::string kPeers = kSourceFolder + std::string("/build/bench");
constexpr std::array<uint64_t, 3> kSizes = {1U << 20, 16U << 20, 100U << 20};

// A command that rank 0 reads and sends to the other ranks.
struct Command {
  int64_t two_levels = 0;
  int64_t sums = 0;  // 0: ends the run
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
    FFDL_ASSIGN_OR_RETURN(auto flat,
                          connect_communicator(world, *store, deadline_in(kPatience),
                                               {.backend = Backend::kTcp, .address = address}));
    return std::unique_ptr<Rank>(new Rank(std::move(two_levels), std::move(flat)));
  }

  // Takes turns until the harness sends no more.
  Status play() {
    if (rank() == 0) answer("ready");
    while (true) {
      Command turn = rank() == 0 ? read_command() : Command{};
      FFDL_RETURN_IF_ERROR(
          flat_->broadcast({&turn, sizeof turn / sizeof(int64_t), DType::kInt64}, 0, kNoDeadline));
      if (turn.sums == 0) return {};
      FFDL_ASSIGN_OR_RETURN(const double seconds, take(turn));
      if (rank() == 0) answer(fmt::format("{}", seconds));
    }
  }

 private:
  Rank(std::unique_ptr<Communicator> two_levels, std::unique_ptr<Communicator> flat)
      : two_levels_(std::move(two_levels)), flat_(std::move(flat)) {}

  int rank() const { return flat_->world().rank; }

  static Command read_command() {
    Command turn;
    std::string line;
    if (std::getline(std::cin, line)) {
      std::istringstream(line) >> turn.two_levels >> turn.sums >> turn.bytes;
    }
    return turn;
  }

  Result<double> take(const Command& turn) {
    Communicator& communicator = turn.two_levels != 0 ? *two_levels_ : *flat_;
    values_.resize(static_cast<size_t>(turn.bytes) / sizeof(float));
    Status status;
    const auto add_up = [&](int64_t times) {
      for (int64_t i = 0; i < times && status.ok(); ++i) {
        std::ranges::fill(values_, 1.0F);
        status = communicator.all_reduce({values_.data(), values_.size()}, ReduceOp::kSum,
                                         deadline_in(kPatience));
      }
    };
    add_up(kWarmUps);
    const double seconds = seconds_of([&] { add_up(turn.sums); });
    FFDL_RETURN_IF_ERROR(std::move(status));
    const bool right = std::ranges::all_of(values_, [](float value) { return value == kRanks; });
    return right ? Result<double>(seconds) : Status(StatusCode::kInternal, "a wrong sum");
  }

  const std::unique_ptr<Communicator> two_levels_;
  const std::unique_ptr<Communicator> flat_;
  std::vector<float> values_;
};

// Replaces this process by a rank of PyTorch's gloo.
int play_torch(int rank, const std::string& folder) {
  const std::string python = kPeers + "/peers/bin/python";
  const std::string program = kPeers + "/allreduce/gloo";
  const std::string ranks = std::to_string(kRanks);
  execl(python.c_str(), python.c_str(), program.c_str(), ranks.c_str(), folder.c_str(),
        std::to_string(rank).c_str(), kTwoHostsCable, static_cast<char*>(nullptr));
  fmt::print(stderr, "'{}' cannot be run; ./dev bench allreduce installs it\n", python);
  return 1;
}

int play_rank(int rank, const std::string& folder, const std::string& address) {
  auto made = Rank::connect(rank, folder, address);
  const Status status = made.ok() ? (*made)->play() : made.status();
  if (!status.ok()) fmt::print(stderr, "rank {}: {}\n", rank, status.to_string());
  return status.ok() ? 0 : 1;
}

// Runs the two hosts; the harness starts this program again for that.
int play_hosts(bool torch) {
  const auto made = make_folder();
  if (!made.ok()) return 1;
  const std::string& folder = *made;
  const auto codes = run_two_hosts([&](int host, const std::string& address) {
    std::array<pid_t, 2> ranks{};
    for (int local = 0; local < 2; ++local) {
      pid_t& pid = ranks[static_cast<size_t>(local)];
      const int rank = 2 * host + local;
      if (pid = fork(); pid != 0) continue;
      _exit(torch ? play_torch(rank, folder) : play_rank(rank, folder, address));
    }
    int worst = 0;
    for (const pid_t pid : ranks) {
      int outcome = 0;
      waitpid(pid, &outcome, 0);
      worst = std::max(worst, outcome);
    }
    return worst == 0 ? 0 : 1;
  });
  std::filesystem::remove_all(folder);
  return codes == std::array<int, 2>{0, 0} ? 0 : 1;
}

using Hosts = std::unique_ptr<Resident>;

Result<Hosts> start_hosts(const std::string& role) {
  FFDL_ASSIGN_OR_RETURN(Hosts hosts, Resident::start_self({"--role", role}));
  FFDL_RETURN_IF_ERROR(hosts->ask("", std::chrono::seconds(60)).status());
  return hosts;
}

struct Contender {
  const Result<Hosts>* hosts;
  std::string prefix = "";  // of the lines that go to the peer
};

void pair_row(Suite& suite, const std::string& name, uint64_t bytes, const Contender& subject,
              const Contender& limit, const std::string& limit_is) {
  if (!suite.wants(name)) return;
  for (const Contender* side : {&subject, &limit}) {
    if (!side->hosts->ok()) return suite.missing(name, side->hosts->status().to_string());
  }
  const int sums = static_cast<int>(std::max<uint64_t>(1, (16U << 20) / bytes));
  const auto turn = [&](const Contender& side) {
    return [&, sums] {
      return side.hosts->value()->ask_number(fmt::format("{}{} {}", side.prefix, sums, bytes));
    };
  };
  suite.measure({.name = name,
                 .unit = "ms",
                 .figure = [sums](double seconds) { return seconds / sums * 1e3; },
                 .subject = turn(subject),
                 .limit = turn(limit),
                 .limit_is = limit_is,
                 .pairs = 30,
                 .target = bytes == kSizes[1] ? std::optional(Target{1.5}) : std::nullopt,
                 .note = "2 ranks on each of 2 network namespaces; each buffer is rewritten before "
                         "each sum, on the clock"});
}

void hierarchical_rows(Suite& suite) {
  const auto ours = start_hosts("hosts");
  if (!ours.ok()) {
    return suite.missing("hierarchical", "no two hosts (network namespaces need root and 'ip'): " +
                                             ours.status().to_string());
  }
  const bool smoke = suite.options().smoke;  // the peer takes longer to start than it may
  const auto torch = smoke ? Result<Hosts>(Status(StatusCode::kUnavailable, "a smoke test"))
                           : start_hosts("torch");
  for (const uint64_t bytes : kSizes) {
    if (smoke && bytes != kSizes[0]) continue;
    const std::string name = fmt::format("hierarchical/all_reduce/{}/{}", kRanks, size_name(bytes));
    pair_row(suite, name, bytes, {&ours, "1 "}, {&ours, "0 "}, "our TCP between all ranks");
    if (!smoke) {
      pair_row(suite, name + "/gloo", bytes, {&ours, "1 "}, {&torch},
               "PyTorch's gloo between all ranks");
    }
  }
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc > 1 && std::string_view(argv[1]) == "--role")
    return play_hosts(argc > 2 && std::string_view(argv[2]) == "torch");
  return Suite::run("hierarchical", argc, argv, [](Suite& suite) { hierarchical_rows(suite); });
}
