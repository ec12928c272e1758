#include "benchmarks/hosts/cut.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include "benchmarks/harness/folder.h"
#include "ffdl/session.h"
#include "ffdl/store.h"
#include "hosts/hosts.h"

namespace ffdl::bench {
namespace {

using namespace std::chrono_literals;
using testing::Hosts;
using Clock = std::chrono::steady_clock;

constexpr int kMembers = 3;
constexpr int kStoreHost = 0;
constexpr auto kPatience = 60s;
constexpr auto kComputing = 3ms;  // time of a step
constexpr int kEtcdPort = 2379;
constexpr const char* kSecret = "of the job that is cut";
// The emulator cuts at once, where a bridge needs two commands.
constexpr testing::LinkOptions kLink = {.delay = 50us};

// Memory that all processes of the job share.
struct Board {
  std::atomic<uint64_t> port;
  struct Slot {
    std::atomic<uint64_t> size;  // of the world of the last step
    std::atomic<uint64_t> step;
  };
  std::array<Slot, kMembers> slots;
};

class SmallModel final : public Trainable {
 public:
  std::vector<Buffer> state() override { return {{weights_.data(), weights_.size()}}; }
  std::vector<Buffer> gradients() override { return {{gradient_.data(), gradient_.size()}}; }
  void apply() override {
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] -= 0.01F * gradient_[i];
  }
  Status begin_anew() override {
    weights_.assign(weights_.size(), 1.0F);
    return {};
  }
  void compute() { gradient_.assign(gradient_.size(), 1.0F); }

 private:
  std::vector<float> weights_ = std::vector<float>(1000, 1.0F);
  std::vector<float> gradient_ = std::vector<float>(1000);
};

int serve_store(const std::string& folder, Board& board) {
  const auto made = StoreServer::start(
      {.folder = folder, .address = Hosts::store_address(kStoreHost) + ":0", .secret = kSecret});
  if (!made.ok()) {
    fmt::print(stderr, "{}\n", made.status().to_string());
    return 1;
  }
  const std::string url = (*made)->url();
  board.port = std::stoul(url.substr(url.rfind(':') + 1));
  while (true) pause();
}

Status train(int host, Board& board, Store& store, Duration lease) {
  SessionOptions options;
  options.self.id = fmt::format("m{}", host);
  options.communicator.address = Hosts::address(host);
  options.membership.lease = lease;
  options.membership.heartbeat = kCutLease / 10;
  options.membership.fence_after = kPatience;
  SmallModel model;
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, store));
  Board::Slot& slot = board.slots[static_cast<size_t>(host)];
  while (true) {
    model.compute();
    std::this_thread::sleep_for(kComputing);
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(1));
    if (result == StepResult::kLeft) return {};
    if (result == StepResult::kRetryStep || session->step() == slot.step) continue;
    slot.size = session->world().members.size();
    slot.step = session->step();
  }
}

// A member of a job with that store, as soon as it answers.
int play_member(int host, Board& board, const std::string& url, const StoreOptions& options,
                Duration lease) {
  const auto until = Clock::now() + kPatience;
  auto store = open_store(url, system_runtime(), options);
  while (!store.ok() && Clock::now() < until) store = open_store(url, system_runtime(), options);
  const Status ended = store.ok() ? train(host, board, **store, lease) : store.status();
  fmt::print(stderr, "member {}: {}\n", host, ended.to_string());
  return 1;
}

bool will_be(const std::function<bool()>& is_so) {
  const auto until = Clock::now() + kPatience;
  while (!is_so()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

bool is_whole(const Board& board) {
  return std::ranges::all_of(board.slots,
                             [](const Board::Slot& slot) { return slot.size == kMembers; });
}

bool train_without(const Board& board, int host) {
  for (int other = 0; other < kMembers; ++other) {
    const Board::Slot& slot = board.slots[static_cast<size_t>(other)];
    if (other != host && slot.size != kMembers - 1) return false;
  }
  return true;
}

Board& make_board() {
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *std::construct_at(static_cast<Board*>(memory));
}

// Runs one etcd of three, on that host. Returns only if it cannot.
int run_etcd(int host, const std::string& folder) {
  const auto url = [](int of, int port) {
    return fmt::format("http://{}:{}", Hosts::store_address(of), port);
  };
  std::string cluster;
  for (int i = 0; i < kMembers; ++i) {
    cluster += fmt::format("{}e{}={}", i == 0 ? "" : ",", i, url(i, kEtcdPort + 1));
  }
  std::vector<std::string> words = {"etcd",
                                    fmt::format("--name=e{}", host),
                                    fmt::format("--data-dir={}/e{}", folder, host),
                                    "--listen-client-urls=" + url(host, kEtcdPort),
                                    "--advertise-client-urls=" + url(host, kEtcdPort),
                                    "--listen-peer-urls=" + url(host, kEtcdPort + 1),
                                    "--initial-advertise-peer-urls=" + url(host, kEtcdPort + 1),
                                    "--initial-cluster=" + cluster};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int silence = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(silence, STDOUT_FILENO);
  dup2(silence, STDERR_FILENO);
  execvp(argv.front(), argv.data());
  return 127;
}

// Loses a host of three with its etcd and its member, each time in a new job.
class LossServer {
 public:
  int run() {
    answer("ready");
    for (std::string line; std::getline(std::cin, line);) {
      const double ms = lose();
      if (ms < 0) return 1;
      answer(fmt::format("{}", ms));
    }
    return 0;
  }

 private:
  double lose() {
    const auto folder = make_folder();
    const auto hosts = Hosts::make(kMembers, kLink);
    if (hosts == nullptr || !folder.ok()) return -1;
    Board& board = make_board();
    std::string url = "etcd://";
    for (int host = 0; host < kMembers; ++host) {
      hosts->start(host, [&] { return run_etcd(host, *folder); });
      url += fmt::format("{}{}:{}", host == 0 ? "" : ",", Hosts::store_address(host), kEtcdPort);
    }
    for (int host = 0; host < kMembers; ++host) {
      hosts->start(host, [&] { return play_member(host, board, url, {}, kLossLease); });
    }
    if (!will_be([&] { return is_whole(board); })) return -1;
    std::this_thread::sleep_for(kLossLease);
    const auto begin = Clock::now();
    if (!hosts->die(kStoreHost)) return -1;
    const bool went_on = will_be([&] { return train_without(board, kStoreHost); });
    const std::chrono::duration<double, std::milli> taken = Clock::now() - begin;
    std::filesystem::remove_all(*folder);
    return went_on ? taken.count() : -1;
  }
};

class CutServer {
 public:
  int run() {
    const auto folder = make_folder();
    hosts_ = Hosts::make(kMembers, kLink);
    if (hosts_ == nullptr || !folder.ok()) return 1;
    const int code = serve(*folder);
    hosts_.reset();
    std::filesystem::remove_all(*folder);
    return code;
  }

 private:
  int serve(const std::string& folder) {
    hosts_->start(kStoreHost, [&] { return serve_store(folder, board_); });
    if (!will_be([&] { return board_.port != 0; })) return 1;
    for (int host = 0; host < kMembers; ++host) {
      hosts_->start(host, [&] {
        const std::string url =
            fmt::format("tcp://{}:{}", Hosts::store_address(kStoreHost), board_.port.load());
        return play_member(host, board_, url, {.secret = kSecret}, kCutLease);
      });
    }
    if (!will_be([&] { return is_whole(board_); })) return 1;
    answer("ready");
    int next = 1;
    for (std::string line; std::getline(std::cin, line);) {
      const double ms = cut(next);
      if (ms < 0) return 1;
      answer(fmt::format("{}", ms));
      next = next == 1 ? 2 : 1;
    }
    return 0;
  }

  // Returns a negative number where the members did not train again.
  double cut(int host) {
    const auto begin = Clock::now();
    if (!hosts_->cut_silently(host)) return -1;
    if (!will_be([&] { return train_without(board_, host); })) return -1;
    const std::chrono::duration<double, std::milli> taken = Clock::now() - begin;
    if (!hosts_->heal_silently(host) || !will_be([&] { return is_whole(board_); })) return -1;
    std::this_thread::sleep_for(kCutLease);  // so that all have renewed their leases
    return taken.count();
  }

  Board& board_ = make_board();
  std::unique_ptr<Hosts> hosts_;
};

}  // namespace

Result<CutJob> CutJob::start() {
  if (const auto why = Hosts::why_no_emulator(); !why.empty()) {
    return Status(StatusCode::kUnavailable, why);
  }
  FFDL_ASSIGN_OR_RETURN(auto process, Resident::start_self({"--role", "cut"}));
  FFDL_RETURN_IF_ERROR(process->ask("", std::chrono::minutes(2)).status());
  return CutJob(std::move(process));
}

Result<double> CutJob::cut() {
  FFDL_ASSIGN_OR_RETURN(const std::string ms, process_->ask("cut", std::chrono::minutes(3)));
  return std::stod(ms);
}

Result<LossJob> LossJob::start() {
  if (const auto why = Hosts::why_no_emulator(); !why.empty()) {
    return Status(StatusCode::kUnavailable, why);
  }
  if (std::system("command -v etcd >/dev/null") != 0) {
    return Status(StatusCode::kUnavailable, "there is no etcd (Debian: etcd-server)");
  }
  FFDL_ASSIGN_OR_RETURN(auto process, Resident::start_self({"--role", "loss"}));
  FFDL_RETURN_IF_ERROR(process->ask("", std::chrono::minutes(2)).status());
  return LossJob(std::move(process));
}

Result<double> LossJob::lose() {
  FFDL_ASSIGN_OR_RETURN(const std::string ms, process_->ask("lose", std::chrono::minutes(3)));
  return std::stod(ms);
}

int play_cut_job() { return CutServer().run(); }
int play_loss_job() { return LossServer().run(); }

}  // namespace ffdl::bench
