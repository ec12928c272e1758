#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fault/cut_hosts_member.h"
#include "hosts/hosts.h"
#include "support/shared_board.h"
#include "support/temp_folder.h"

namespace ffdl::cuts {

// A bound for hangs. A quiet machine begins three worlds in it, each given up after two seconds.
inline constexpr auto kBegin = std::chrono::seconds(60);

// A job whose members are processes on hosts, and whose store is on host 0.
class HostsJob : public ::testing::Test {
 protected:
  ~HostsJob() override {
    hosts_.reset();
    munmap(&board_, sizeof board_);
  }

  void begin(std::unique_ptr<testing::Hosts> hosts) {
    setenv("FFDL_LOG", "info", 1);
    hosts_ = std::move(hosts);
    ASSERT_NE(hosts_, nullptr);
    board_.last_epoch = ~uint64_t{0};
    hosts_->start(kStoreHost, [&] { return serve_store(folder_.path(), board_); });
    ASSERT_TRUE(will_be(kBegin, [&] { return board_.port != 0; }));
  }

  // Starts a member; its folder and its store are those of the job.
  pid_t start_part(Part part) {
    part.folder = folder_.path();
    part.store_url = store_url(board_);
    return hosts_->start(part.host, [&] { return take_part(part, board_); });
  }

  static bool will_be(Duration patience, const std::function<bool()>& is_so) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  const Board::Slot& slot(int member) const { return board_.slots[static_cast<size_t>(member)]; }

  // Returns true if these members train in a world of no others.
  bool train(const std::vector<int>& members) const {
    return std::ranges::all_of(members, [&](int member) {
      return slot(member).step > 0 && slot(member).size == members.size();
    });
  }

  std::string log_of(int member) const {
    std::stringstream text;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("log-" + std::to_string(member))) continue;
      text << std::ifstream(entry.path()).rdbuf();
    }
    return text.str();
  }

  // Waits for the end of a process. Returns -1 if it was killed, or does not end in time.
  static int exit_code_of(pid_t process, Duration patience = kBegin) {
    int status = 0;
    if (!will_be(patience, [&] { return waitpid(process, &status, WNOHANG) == process; })) {
      return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Ends the training of all members with the same step, that of an epoch which none has reached: a
  // member that ends before the others leaves them, and fewer than the least may remain.
  void finish_soon() { board_.last_epoch = board_.epoch + 2; }

  // Expects that no sample of the job was lost or used twice, and that equal steps had equal
  // states.
  void expect_nothing_lost_or_repeated() const {
    std::vector<std::string> problems;
    const auto found = audit(folder_.path(), problems);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(problems, std::vector<std::string>());
    EXPECT_EQ(found->missing, 0U);
    EXPECT_EQ(found->repeated, 0U);
    EXPECT_GT(found->samples, 0U);
  }

  Board& board_ = testing::make_shared_board<Board>();
  const TempFolder folder_;
  std::unique_ptr<testing::Hosts> hosts_;
};

}  // namespace ffdl::cuts
