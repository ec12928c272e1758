// Trains one job across hosts that are cut off from each other at random and joined again. The side
// with the store continues. A member that was cut off is back soon, or its life is over and its
// launcher starts another. Equal steps have equal states. The audit of each job finds no missing or
// repeated sample.
//   cut_hosts_test [--cuts N] [--seed S] [--check exact|times|all] [--margin MS] [--keep 1]
// The verdict is on what must be exact (samples, states, worlds), on the times, or on both. Stalls
// may take as long as the protocol allows, and `--margin` longer. That is scaled by the slowness of
// the machine: one with other work does not run every process at once. With --keep the logs of
// members stay.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fault/cut_hosts_member.h"
#include "ffdl/data/commit_log.h"
#include "hosts/hosts.h"
#include "support/shared_board.h"
#include "support/slowness.h"
#include "support/temp_folder.h"

namespace ffdl::cuts {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::Hosts;
using Clock = std::chrono::steady_clock;

constexpr int kSkipped = 77;
constexpr auto kPatience = 120s;
constexpr int kCutsOfJob = 10;
constexpr int64_t kNever = 0;
// The delay of a restored cable: the kernel acts on such news at most once a second.
constexpr int64_t kCarrierMs = 1000;
constexpr Duration kShortFence = 2s;

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }
int64_t to_ms(int64_t ns) { return ns / 1'000'000; }

enum class Kind { kOne, kTwice, kOthers, kKilled, kPeers, kOneWay, kEnd };
constexpr int kKinds = 7;
const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"one host",       "one host twice", "all without the store",
                                    "killed and cut", "from its peers", "one way to a peer",
                                    "around the end"};
  return kNames[static_cast<int>(kind)];
}

struct Checks {
  bool exact = true;
  bool times = true;
};

struct Bounds {
  int64_t side_ms;   // stall of the side that continues
  int64_t back_ms;   // stall of a member after its link is back
  int64_t peers_ms;  // stall of members that reach the store but not each other
  int64_t over_ms;   // from the fence of a member to the end of its life
  double slowness;   // of the machine; it is part of the others
};

// The stalls of one kind, in milliseconds.
class Stalls {
 public:
  void add(int64_t ms) { all_.push_back(ms); }
  std::string summary() {
    if (all_.empty()) return "none";
    std::sort(all_.begin(), all_.end());
    return fmt::format("median {} ms, longest {} ms of {}", all_[all_.size() / 2], all_.back(),
                       all_.size());
  }

 private:
  std::vector<int64_t> all_;
};

struct Report {
  std::map<Kind, int> cuts;
  std::map<Kind, Stalls> side;
  std::map<Kind, Stalls> back;
  Stalls anew;  // stalls of lives that started when the link was back
  int jobs_begun = 0;
  int jobs = 0;  // jobs that were audited
  int fenced = 0;
  int starts = 0;
  std::vector<std::string> violations;
  std::vector<std::string> late;  // stalls beyond their bounds
  uint64_t steps = 0;
  uint64_t samples = 0;
  uint64_t missing = 0;
  uint64_t repeated = 0;
};

// One job, from its hosts to the audit of its commits.
class Job {
 public:
  // Without bounds no stall is late.
  Job(uint64_t seed, Report& report, const std::optional<Bounds>& bounds)
      : seed_(seed),
        random_(seed),
        report_(report),
        bounds_(bounds),
        board_(testing::make_shared_board<Board>()),
        fence_after_(below(2) == 0 ? kShortFence : Duration(30s)) {
    ++report_.jobs_begun;
    board_.last_epoch = ~uint64_t{0};
  }
  ~Job() { munmap(&board_, sizeof board_); }

  // Returns false if the job broke so badly that no further cut makes sense.
  bool run(int cuts) {
    const int hosts = below(10) < 7 ? 3 : 2 + 2 * static_cast<int>(below(2));
    hosts_ = Hosts::make(hosts);
    if (hosts_ == nullptr) return violation("the hosts could not be made");
    start_store();
    for (int host = 0; host < hosts; ++host) {
      for (uint64_t i = 0; i < 1 + below(2); ++i) add_member(host);
    }
    if (!come_together("the beginning")) return false;
    for (int cut = 0; cut + 1 < cuts; ++cut) {
      if (!act(draw_kind())) return false;
    }
    return act(Kind::kEnd) && audit_all();
  }

  const std::string& folder() const { return folder_.path(); }

 private:
  struct Running {
    int host = 0;
    pid_t pid = 0;            // 0: its process has ended
    Ended ended = kFinished;  // the way it ended
    bool is_healthy = false;  // reaches the store and others, in the present event
    int64_t seen = kNever;    // the newest step that was seen
    int64_t longest = 0;      // between two steps, in the present event
  };

  // --- small helpers ---
  uint64_t below(uint64_t end) {
    return std::uniform_int_distribution<uint64_t>(0, end - 1)(random_);
  }
  // Draws short lengths as often as long ones.
  milliseconds draw_length() {
    std::uniform_real_distribution<double> exponents(std::log(200), std::log(6000));
    return milliseconds(static_cast<int64_t>(std::exp(exponents(random_))));
  }
  Board::Slot& slot(size_t number) { return board_.slots[number]; }
  bool violation(const std::string& what) {
    add("VIOLATION", what, report_.violations);
    return false;
  }
  void check_time(int64_t ms, int64_t Bounds::*bound, int64_t further_ms, const std::string& what) {
    if (!bounds_) return;
    const int64_t most = *bounds_.*bound + further_ms;
    if (ms <= most) return;
    const double slowness = bounds_->slowness;
    add("LATE", fmt::format("{}; the bound is {} ms at a slowness of {:.2f}", what, most, slowness),
        report_.late);
  }
  void add(const char* kind, const std::string& what, std::vector<std::string>& lines) {
    lines.push_back(fmt::format("seed {}, {}: {}", seed_, event_, what));
    fmt::print("{} at {} ms: {}\n", kind, to_ms(now_ns()), lines.back());
    std::fflush(stdout);
  }

  // --- processes ---
  void start_store() {
    const pid_t server = hosts_->start(kStoreHost, [&] { return serve_store(folder(), board_); });
    while (board_.port == 0 && waitpid(server, nullptr, WNOHANG) == 0) {
      std::this_thread::sleep_for(1ms);
    }
  }

  void add_member(int host) {
    if (members_.size() == kMembersMax) return;
    members_.push_back({.host = host});
    start_member(members_.size() - 1);
  }

  void start_member(size_t number) {
    Running& member = members_[number];
    const Part part = {.number = static_cast<int>(number),
                       .host = member.host,
                       .folder = folder(),
                       .store_url = store_url(board_),
                       .fence_after = fence_after_};
    slot(number).is_done = false;
    member.seen = slot(number).applied_at = kNever;
    slot(number).over_at = kNever;
    member.pid = hosts_->start(member.host, [&] { return take_part(part, board_); });
    ++report_.starts;
  }

  void kill_host(int host) {
    for (Running& member : members_) {
      if (member.host != host || member.pid == 0) continue;
      kill(member.pid, SIGKILL);
      waitpid(member.pid, nullptr, 0);
      member.pid = 0;
      member.ended = kCancelled;
    }
  }

  // Records the steps and ends of members.
  void watch() {
    for (size_t number = 0; number < members_.size(); ++number) {
      Running& member = members_[number];
      const int64_t applied = slot(number).applied_at;
      if (applied != member.seen) {
        if (member.seen != kNever) member.longest = std::max(member.longest, applied - member.seen);
        member.seen = applied;
      }
      int status = 0;
      if (member.pid == 0 || waitpid(member.pid, &status, WNOHANG) != member.pid) continue;
      member.pid = 0;
      member.ended = WIFEXITED(status) && WEXITSTATUS(status) <= kCancelled
                         ? static_cast<Ended>(WEXITSTATUS(status))
                         : kFailed;
      has_ended(number);
    }
  }

  void has_ended(size_t number) {
    const Running& member = members_[number];
    if (member.ended == kFailed) violation(fmt::format("m{} failed; see its log", number));
    if (member.ended == kFinished && !is_ending()) violation(fmt::format("m{} left", number));
    if (member.ended != kCancelled) return;
    ++report_.fenced;
    if (!member.is_healthy) return;
    // A slow machine may hold up a healthy member for as long as a short fence.
    const std::string what = fmt::format("m{} was healthy, and cancelled", number);
    if (fence_after_ > kShortFence) violation(what);
    if (bounds_) add("LATE", what, report_.late);
  }

  void watch_for(Duration length) {
    const auto until = Clock::now() + length;
    while (Clock::now() < until) {
      watch();
      std::this_thread::sleep_for(1ms);
    }
  }

  // --- expectations ---
  bool is_ending() const { return board_.last_epoch != ~uint64_t{0}; }

  bool is_whole(int64_t since) {
    uint64_t generation = 0;
    for (size_t number = 0; number < members_.size(); ++number) {
      const Board::Slot& one = slot(number);
      if (one.applied_at <= since || one.size != members_.size()) return false;
      if (generation != 0 && one.generation != generation) return false;
      generation = one.generation;
    }
    return true;
  }

  bool has_finished() {
    return std::ranges::all_of(members_, [](const Running& member) {
      return member.pid == 0 && member.ended == kFinished;
    });
  }

  // Starts each member again whose life is over, as a launcher does.
  void launch_again() {
    for (size_t number = 0; number < members_.size(); ++number) {
      Running& member = members_[number];
      if (member.pid == 0 && member.ended == kCancelled) start_member(number);
    }
  }

  // Waits until all members train in one world, or are done.
  bool come_together(const std::string& event) {
    event_ = event;
    const int64_t since = now_ns();
    const auto until = Clock::now() + kPatience;
    while (!(is_ending() ? has_finished() : is_whole(since))) {
      watch();
      note_returns();
      launch_again();
      if (Clock::now() > until) return violation("not together again: " + where_all_are());
      if (!report_.violations.empty() && has_failed()) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  bool has_failed() const {
    return std::ranges::any_of(
        members_, [](const Running& member) { return member.pid == 0 && member.ended == kFailed; });
  }

  std::string where_all_are() {
    std::vector<std::string> places;
    for (size_t number = 0; number < members_.size(); ++number) {
      const Board::Slot& one = slot(number);
      places.push_back(fmt::format(
          "m{} on host {} {}: step {} in generation {} of {}, {} ms ago", number,
          members_[number].host, members_[number].pid == 0 ? "ended" : "runs", one.step.load(),
          one.generation.load(), one.size.load(), to_ms(now_ns() - one.applied_at)));
    }
    return fmt::format("{}; logs in {}", fmt::join(places, ", "), folder());
  }

  // --- one cut ---
  Kind draw_kind() { return static_cast<Kind>(below(kKinds - 1)); }

  bool act(Kind kind) {
    ++report_.cuts[kind];
    const milliseconds length = draw_length();
    const int count = hosts_->count();
    // Draws any host, or one without the store where the kind requires that.
    const bool may_be_store = kind == Kind::kOne || kind == Kind::kTwice;
    const int host =
        may_be_store ? static_cast<int>(below(count)) : 1 + static_cast<int>(below(count - 1));
    event_ = fmt::format("{}: host {} for {} ms", name_of(kind), host, length.count());
    if (kind == Kind::kPeers || kind == Kind::kOneWay) return lose_peers(kind, host, length);
    std::vector<int> hosts = {host};
    if (kind == Kind::kOthers) {
      hosts.clear();
      for (int other = 1; other < count; ++other) hosts.push_back(other);
    }
    return cut_off(kind, hosts, length);
  }

  void begin_event(const std::vector<int>& cut) {
    const bool cuts_store = std::ranges::count(cut, kStoreHost) > 0;
    for (size_t number = 0; number < members_.size(); ++number) {
      Running& member = members_[number];
      const bool is_cut = std::ranges::count(cut, member.host) > 0;
      member.is_healthy = cuts_store ? member.host == kStoreHost : !is_cut;
      member.seen = slot(number).applied_at;
      member.longest = 0;
    }
    healed_at_ = kNever;
    returned_.assign(members_.size(), std::nullopt);
    is_anew_.assign(members_.size(), false);
  }

  bool cut_off(Kind kind, const std::vector<int>& hosts, milliseconds length) {
    begin_event(hosts);
    if (kind == Kind::kEnd) {
      board_.last_epoch = board_.epoch + 1;
      watch_for(milliseconds(below(800)));
    }
    const bool kills_first = below(2) == 0;
    if (kind == Kind::kKilled && kills_first) kill_host(hosts.front());
    is_silent_ = below(2) == 0;
    cut_at_ = now_ns();
    for (const int host : hosts) cut(host);
    if (kind == Kind::kKilled && !kills_first) kill_host(hosts.front());
    watch_for(length);
    if (kind == Kind::kTwice) {
      for (const int host : hosts) heal(host);
      watch_for(milliseconds(100 + below(900)));
      cut_at_ = now_ns();
      for (const int host : hosts) cut(host);
      length = draw_length();
      watch_for(length);
    }
    if (kind != Kind::kKilled) await_fences(length);
    for (const int host : hosts) heal(host);
    healed_at_ = now_ns();
    for (size_t number = 0; number < members_.size(); ++number) {
      is_anew_[number] = members_[number].pid == 0 || slot(number).over_at != kNever;
    }
    return come_together(event_) && judge(kind, &Bounds::side_ms);
  }

  void cut(int host) { is_silent_ ? hosts_->cut_silently(host) : hosts_->cut(host); }
  void heal(int host) { is_silent_ ? hosts_->heal_silently(host) : hosts_->heal(host); }

  // Loses messages between the members of that host and others, in one or both directions. All
  // still reach the store, so each of them is healthy.
  bool lose_peers(Kind kind, int host, milliseconds length) {
    begin_event({});
    const int other = (host + 1) % hosts_->count();
    for (int peer = 0; peer < hosts_->count(); ++peer) {
      if (peer == host || (kind == Kind::kOneWay && peer != other)) continue;
      hosts_->lose(host, Hosts::address(peer));
      // The packets of the store's host carry the store's answers, so they must arrive.
      if (kind == Kind::kPeers && peer != kStoreHost) hosts_->lose(peer, Hosts::address(host));
    }
    watch_for(length);
    for (int peer = 0; peer < hosts_->count(); ++peer) {
      if (peer == host || (kind == Kind::kOneWay && peer != other)) continue;
      hosts_->deliver(host, Hosts::address(peer));
      if (kind == Kind::kPeers && peer != kStoreHost) hosts_->deliver(peer, Hosts::address(host));
    }
    for (Running& member : members_) member.is_healthy = member.host != host;
    return come_together(event_) && judge(kind, &Bounds::peers_ms);
  }

  // A member that could not renew its lease for so long must know that its life is over.
  void await_fences(milliseconds length) {
    if (length < fence_after_ + 1s) return;
    const auto until = Clock::now() + kPatience;
    for (size_t number = 0; number < members_.size(); ++number) {
      while (is_unfenced(number) && Clock::now() < until) {
        watch();
        std::this_thread::sleep_for(1ms);
      }
      if (is_unfenced(number)) violation(fmt::format("m{} was not fenced", number));
      const int64_t over_at = slot(number).over_at;
      if (members_[number].is_healthy || over_at == kNever) continue;
      const int64_t ms = to_ms(over_at - cut_at_ - fence_after_.count());
      check_time(ms, &Bounds::over_ms, 0,
                 fmt::format("m{} ended {} ms after its fence", number, ms));
    }
  }

  bool is_unfenced(size_t number) {
    const Running& member = members_[number];
    // A member on the store's host is never cut off from the store.
    if (member.is_healthy || member.host == kStoreHost || member.pid == 0) return false;
    return !slot(number).is_done && slot(number).over_at == kNever;
  }

  // Records the time at which a member that was cut off trains again, or its life is over.
  void note_returns() {
    if (healed_at_ == kNever) return;
    for (size_t number = 0; number < members_.size(); ++number) {
      if (members_[number].is_healthy || returned_[number]) continue;
      const int64_t over_at = is_anew_[number] ? kNever : slot(number).over_at.load();
      if (over_at == kNever && slot(number).applied_at < healed_at_) continue;
      const int64_t at = over_at != kNever ? over_at : slot(number).applied_at.load();
      returned_[number] = std::max<int64_t>(at - healed_at_, 0);
    }
  }

  bool judge(Kind kind, int64_t Bounds::*side) {
    note_returns();
    for (size_t number = 0; number < members_.size(); ++number) {
      const Running& member = members_[number];
      if (member.is_healthy) {
        const int64_t ms = to_ms(member.longest);
        report_.side[kind].add(ms);
        check_time(ms, side, 0,
                   fmt::format("m{}, which reached the store, stood still for {} ms", number, ms));
      } else if (healed_at_ != kNever && returned_[number]) {
        const int64_t ms = to_ms(*returned_[number]);
        (is_anew_[number] ? report_.anew : report_.back[kind]).add(ms);
        if (is_anew_[number]) continue;
        check_time(ms, &Bounds::back_ms, is_silent_ ? 0 : kCarrierMs,
                   fmt::format("m{} was back {} ms after its link{}", number, ms,
                               is_silent_ ? "" : ", whose cable was pulled"));
      }
    }
    return true;
  }

  // --- the records of members ---
  bool audit_all() {
    std::vector<std::string> problems;
    const auto found = audit(folder(), problems);
    for (const std::string& problem : problems) violation(problem);
    if (!found.ok()) return violation(found.status().to_string());
    report_.steps += found->steps;
    report_.samples += found->samples;
    report_.missing += found->missing;
    report_.repeated += found->repeated;
    ++report_.jobs;
    return true;
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  Report& report_;
  const std::optional<Bounds> bounds_;
  const TempFolder folder_;
  Board& board_;
  const Duration fence_after_;
  std::unique_ptr<Hosts> hosts_;
  std::vector<Running> members_;
  bool is_silent_ = false;  // the present cut drops packets, and no side sees it
  std::string event_ = "the start";
  int64_t cut_at_ = kNever;
  int64_t healed_at_ = kNever;
  std::vector<std::optional<int64_t>> returned_;  // after the link was back, in the present event
  std::vector<bool> is_anew_;                     // in another life than the one that was cut off
};

std::string_view word(int argc, char** argv, std::string_view name, std::string_view otherwise) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (name == argv[i]) return argv[i + 1];
  }
  return otherwise;
}

uint64_t argument(int argc, char** argv, std::string_view name, uint64_t otherwise) {
  const std::string_view found = word(argc, argv, name, "");
  return found.empty() ? otherwise : std::stoull(std::string(found));
}

// Measures the slowness, before a job begins.
Bounds bounds_with(int64_t margin_ms) {
  const double slowness = testing::measure_slowness();
  const auto margin = static_cast<int64_t>(static_cast<double>(margin_ms) * slowness);
  const int64_t lease_ms = milliseconds(kLease).count();
  return {lease_ms + 1000 + margin, 2000 + margin, 14'000 + margin, 1000 + margin, slowness};
}

void print(Report& report, uint64_t seed) {
  int cuts = 0;
  for (const auto& [kind, count] : report.cuts) {
    cuts += count;
    fmt::print("{} x {}: side that goes on: {}; back: {}\n", count, name_of(kind),
               report.side[kind].summary(), report.back[kind].summary());
  }
  fmt::print("lives that were started when the link was back: {}\n", report.anew.summary());
  fmt::print(
      "seed {}: {} cuts in {} jobs, {} starts, {} lives fenced or killed; {} steps, {} "
      "samples, {} missing, {} repeated; {} violations, {} late\n",
      seed, cuts, report.jobs, report.starts, report.fenced, report.steps, report.samples,
      report.missing, report.repeated, report.violations.size(), report.late.size());
}

int run(int argc, char** argv) {
  if (const auto why = Hosts::why_not(); !why.empty()) {
    fmt::print("skipped: {}\n", why);
    return kSkipped;
  }
  setenv("FFDL_LOG", "info", 1);
  const auto cuts = static_cast<int>(argument(argc, argv, "--cuts", 10));
  const uint64_t seed = argument(argc, argv, "--seed", std::random_device()());
  const auto margin = static_cast<int64_t>(argument(argc, argv, "--margin", 0));
  const std::string_view check = word(argc, argv, "--check", "all");
  const Checks checks = {.exact = check != "times", .times = check != "exact"};
  Report report;
  const auto findings = [&] { return report.violations.size() + report.late.size(); };
  for (int done = 0, job = 0; done < cuts && findings() < 20; ++job) {
    Job one(seed + static_cast<uint64_t>(job), report,
            checks.times ? std::optional(bounds_with(margin)) : std::nullopt);
    const size_t before = findings();
    one.run(std::min(kCutsOfJob, cuts - done));
    done += kCutsOfJob;
    if (findings() == before || argument(argc, argv, "--keep", 0) == 0) continue;
    const std::string kept = fmt::format("/tmp/cut_hosts-{}", seed + static_cast<uint64_t>(job));
    std::filesystem::copy(one.folder(), kept, std::filesystem::copy_options::recursive);
    fmt::print("logs: {}\n", kept);
  }
  print(report, seed);
  const bool is_exact = report.violations.empty() && report.missing + report.repeated == 0;
  // A job that was not audited has not shown all of its times.
  const bool is_in_time = report.late.empty() && report.jobs == report.jobs_begun;
  return (is_exact || !checks.exact) && (is_in_time || !checks.times) ? 0 : 1;
}

}  // namespace
}  // namespace ffdl::cuts

int main(int argc, char** argv) { return ffdl::cuts::run(argc, argv); }
