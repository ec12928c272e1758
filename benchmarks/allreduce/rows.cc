#include "benchmarks/allreduce/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "benchmarks/harness/resident.h"
#include "benchmarks/harness/source_folder.h"

namespace ffdl::bench {
namespace {

const std::string kRunPeer = kSourceFolder + std::string("/benchmarks/peers/allreduce/run.sh");
constexpr const char* kPeers[] = {"impi", "oneccl", "openmpi", "openmpi_default", "gloo"};
constexpr uint64_t kSizes[] = {4U << 10, 64U << 10, 1U << 20, 16U << 20, 100U << 20};
constexpr uint64_t kNetworkSizes[] = {4U << 10, 64U << 20};
constexpr uint64_t kListBytes = 8U << 20;

// The groups of ranks, which sleep until their turn.
class Groups {
 public:
  explicit Groups(int ranks) : ranks_(ranks) {}

  int ranks() const { return ranks_; }

  Result<Resident*> get(const std::string& contender, bool ours) {
    auto& group = groups_[contender];
    if (group == nullptr) {
      const std::string ranks = std::to_string(ranks_);
      FFDL_ASSIGN_OR_RETURN(group, ours ? Resident::start_self({"--role", contender, ranks})
                                        : Resident::start({kRunPeer, contender, ranks}));
      FFDL_ASSIGN_OR_RETURN(const std::string ready, group->ask("", std::chrono::seconds(120)));
      if (ready != "ready") {
        return Status(StatusCode::kInternal, fmt::format("{} said '{}'", contender, ready));
      }
    }
    return group.get();
  }

 private:
  const int ranks_;
  std::map<std::string, std::unique_ptr<Resident>> groups_;
};

// Returns a count that takes about half a millisecond with the fastest contender; one for large
// buffers. A tenth if a sum wakes sleepers: ranks of gloo, and ranks that share a processor.
int sums_per_turn(uint64_t bytes, bool wakes = false) {
  const uint64_t most = wakes ? 20 : 200;
  return static_cast<int>(std::clamp<uint64_t>((most << 14) / bytes, 1, most));
}

struct Side {
  std::string contender;
  bool ours = true;
  std::string list = "";  // " list": the bytes as a list of tensors
};

void pair_row(Suite& suite, Groups& groups, const std::string& name, uint64_t bytes,
              const Side& subject, const Side& limit, const std::string& limit_is,
              std::optional<Target> target) {
  if (!suite.wants(name)) return;
  auto one = groups.get(subject.contender, subject.ours);
  auto other = groups.get(limit.contender, limit.ours);
  for (const auto& [side, group] : {std::pair(&subject, &one), std::pair(&limit, &other)}) {
    if (group->ok()) continue;
    const Status& why = group->status();
    return side->ours ? suite.failed(name, why) : suite.missing(name, why.to_string());
  }
  const int sums = sums_per_turn(bytes, limit.contender.starts_with("gloo") || groups.ranks() > 2);
  const std::string command = fmt::format("{} {}", sums, bytes);
  suite.measure(
      PairSpec{.name = name,
               .unit = "us",
               .figure = [sums](double seconds) { return seconds / sums * 1e6; },
               .subject = [&] { return (*one)->ask_number(command + subject.list); },
               .limit = [&] { return (*other)->ask_number(command + limit.list); },
               .limit_is = limit_is,
               .target = target,
               .note = fmt::format("{} ranks, {} float32 sums in a row, each buffer is rewritten "
                                   "before each",
                                   groups.ranks(), sums)});
}

void floor_rows(Suite& suite, Groups& groups, const std::vector<uint64_t>& sizes) {
  const std::string floor = "two processes that add in shared memory, written by hand";
  for (const uint64_t bytes : sizes) {
    pair_row(suite, groups, "allreduce/shm_shared/2/" + size_name(bytes), bytes, {"shm_shared"},
             {"floor"}, floor, Target{0.7});
    pair_row(suite, groups, "allreduce/shm_private/2/" + size_name(bytes), bytes, {"shm_private"},
             {"floor"}, floor, std::nullopt);
  }
}

// Measures two ranks, where the tree over eight micro-batches is that of the ranks, and three,
// where it is not.
void micro_batch_rows(Suite& suite, Groups& groups, const std::vector<uint64_t>& sizes) {
  for (const uint64_t bytes : sizes) {
    pair_row(suite, groups,
             fmt::format("allreduce/micro_batches/{}/{}", groups.ranks(), size_name(bytes)), bytes,
             {"same_bits"}, {"any_bits"}, "the same adds in any order, and a plain all_reduce",
             std::nullopt);
  }
}

// Compares the transports between hosts over the loopback interface.
void network_rows(Suite& suite, Groups& groups) {
  for (const uint64_t bytes : kNetworkSizes) {
    const std::string size = size_name(bytes);
    const std::string tcp = fmt::format("allreduce/tcp/{}/{}", groups.ranks(), size);
    pair_row(suite, groups, tcp + "/gloo_links", bytes, {"tcp"}, {"gloo_links"},
             "ffdl's sums with messages by gloo", std::nullopt);
    pair_row(suite, groups, tcp + "/gloo", bytes, {"tcp"}, {"gloo", false}, "gloo", std::nullopt);
    pair_row(suite, groups, fmt::format("allreduce/tls/{}/{}", groups.ranks(), size), bytes,
             {"tls"}, {"tcp"}, "the same without TLS", std::nullopt);
  }
}

// Compares with the peers. Targets: ahead of all with shared buffers and with four ranks; with
// private buffers ahead from 1 MiB on, and within 1.1 of them below.
void peer_rows(Suite& suite, Groups& groups, const std::vector<uint64_t>& sizes) {
  for (const std::string& ours : {std::string("shm_shared"), std::string("shm_private")}) {
    const bool easier = groups.ranks() == 2 && ours == "shm_private";
    for (const uint64_t bytes : sizes) {
      for (const char* peer : kPeers) {
        const std::string name =
            fmt::format("allreduce/{}/{}/{}/{}", ours, groups.ranks(), size_name(bytes), peer);
        pair_row(suite, groups, name, bytes, {ours}, {peer, false}, peer,
                 Target{easier && bytes < 1U << 20 ? 1 / 1.1 : 1});
      }
    }
  }
}

}  // namespace

void allreduce_rows(Suite& suite, const Reference& machine) {
  if (machine.cpus.size() < 2) {
    return suite.missing("allreduce", "one processor: ranks would only take turns");
  }
  const bool smoke = suite.options().smoke;
  const std::vector<uint64_t> sizes =
      smoke ? std::vector<uint64_t>{kSizes[0], kSizes[2]}
            : std::vector<uint64_t>(std::begin(kSizes), std::end(kSizes));
  Groups two(2);
  if (auto floor = two.get("floor", true); floor.ok()) {
    const std::string command = fmt::format("{} {}", sums_per_turn(kSizes[2]), kSizes[2]);
    suite.self_check(
        {.name = "allreduce",
         .unit = "us",
         .figure = [](double seconds) { return seconds / sums_per_turn(kSizes[2]) * 1e6; },
         .limit = [&] { return (*floor)->ask_number(command); },
         .limit_is = "the floor"});
  }
  floor_rows(suite, two, sizes);
  pair_row(suite, two, "allreduce/list_of_160/2", kListBytes, {"shm_private", true, " list"},
           {"shm_private"}, "one flat buffer of the same bytes", Target{1 / 1.3});
  Groups three(3);
  const std::vector<uint64_t> gradients =
      smoke ? std::vector<uint64_t>{kSizes[2]} : std::vector<uint64_t>{kSizes[2], kSizes[3]};
  micro_batch_rows(suite, two, gradients);
  micro_batch_rows(suite, three, gradients);
  if (smoke) return;  // the peers take longer to start than a smoke test may
  network_rows(suite, two);
  peer_rows(suite, two, sizes);
  Groups four(4);
  peer_rows(suite, four, sizes);
}

}  // namespace ffdl::bench
