#include "hosts/hosts.h"
#include "support/fork_child.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace ffdl::testing {
namespace {

constexpr uint16_t kPort = 4242;

int exit_code_of(pid_t process) {
  int status = 0;
  if (process < 0 || waitpid(process, &status, 0) != process) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

sockaddr_in endpoint(const std::string& address) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(kPort);
  inet_pton(AF_INET, address.c_str(), &made.sin_addr);
  return made;
}

// Answers every datagram.
int echo() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_in any = endpoint("0.0.0.0");
  if (bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) return 1;
  while (true) {
    char word = 0;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    if (recvfrom(fd, &word, 1, 0, reinterpret_cast<sockaddr*>(&from), &size) != 1) return 2;
    sendto(fd, &word, 1, 0, reinterpret_cast<const sockaddr*>(&from), size);
  }
}

// Returns 0 if an answer arrives within a while.
int ask(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_in to = endpoint(address);
  for (int attempt = 0; attempt < 10; ++attempt) {
    sendto(fd, "?", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    pollfd polled = {fd, POLLIN, 0};
    if (poll(&polled, 1, 50) == 1) return 0;
  }
  return 1;
}

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::why_not(); !why.empty()) GTEST_SKIP() << why;
    hosts_ = Hosts::make(3);
    ASSERT_NE(hosts_, nullptr);
    for (int host = 0; host < hosts_->count(); ++host) hosts_->start(host, echo);
  }
  bool reaches(int from, const std::string& to) {
    return exit_code_of(hosts_->start(from, [&] { return ask(to); })) == 0;
  }
  // Waits for the kernel, which may take a second or two to notice a restored cable, and for hosts
  // that a busy machine holds up.
  bool reaches_again(int from, const std::string& to) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!reaches(from, to)) {
      if (std::chrono::steady_clock::now() >= patience) return false;
    }
    return true;
  }
  std::unique_ptr<Hosts> hosts_;
};

TEST_F(HostsTest, ReachEachOtherAndNothingElse) {
  EXPECT_TRUE(reaches_again(0, Hosts::address(1)));
  EXPECT_TRUE(reaches_again(2, Hosts::store_address(0)));
  EXPECT_FALSE(reaches(0, "10.77.0.77"));
  EXPECT_FALSE(std::filesystem::exists("/sys/class/net/cable0"));
}

TEST_F(HostsTest, ACableIsPulledAndPutBack) {
  ASSERT_TRUE(hosts_->cut(1));
  EXPECT_FALSE(reaches(0, Hosts::address(1)));
  EXPECT_FALSE(reaches(1, Hosts::address(2)));
  EXPECT_TRUE(reaches_again(0, Hosts::address(2)));
  ASSERT_TRUE(hosts_->heal(1));
  EXPECT_TRUE(reaches_again(0, Hosts::address(1)));
}

TEST_F(HostsTest, AllOfAHostIsLost) {
  ASSERT_TRUE(hosts_->cut_silently(1));
  EXPECT_FALSE(reaches(0, Hosts::address(1)));
  EXPECT_FALSE(reaches(1, Hosts::address(2)));
  EXPECT_TRUE(reaches_again(0, Hosts::address(2)));
  ASSERT_TRUE(hosts_->heal_silently(1));
  EXPECT_TRUE(reaches_again(0, Hosts::address(1)));
}

TEST_F(HostsTest, OneDirectionIsLostToOneAddress) {
  ASSERT_TRUE(hosts_->lose(1, Hosts::address(0)));
  EXPECT_FALSE(reaches(1, Hosts::address(0)));
  EXPECT_TRUE(reaches_again(1, Hosts::store_address(0)));
  EXPECT_TRUE(reaches_again(1, Hosts::address(2)));
  ASSERT_TRUE(hosts_->deliver(1, Hosts::address(0)));
  EXPECT_TRUE(reaches_again(1, Hosts::address(0)));
}

TEST_F(HostsTest, HaveTheirOwnMemoryNamesAndProcesses) {
  const auto look = [] {
    std::array<char, 64> name{};
    if (gethostname(name.data(), name.size()) != 0 || std::string(name.data()) != "host1") return 1;
    if (!std::filesystem::is_empty("/dev/shm")) return 2;
    if (std::filesystem::read_symlink("/proc/self") != std::to_string(getpid())) return 3;
    std::ofstream("/dev/shm/ffdl-hosts-test") << "of host 1";
    return 0;
  };
  EXPECT_EQ(exit_code_of(hosts_->start(1, look)), 0);
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/ffdl-hosts-test"));
}

// Processes on the hosts end with a test that is killed.
TEST(HostsEnd, WithTheProcessThatMadeThem) {
  if (const auto why = Hosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  std::array<int, 2> told{};
  ASSERT_EQ(pipe2(told.data(), O_CLOEXEC), 0);
  const pid_t maker = testing::fork_child();
  if (maker == 0) {
    const auto hosts = Hosts::make(2);
    if (hosts == nullptr) _exit(1);
    hosts->start(0, [&] {
      if (write(told[1], "!", 1) != 1) return 1;
      while (true) pause();
    });
    while (true) pause();
  }
  close(told[1]);
  char word = 0;
  ASSERT_EQ(read(told[0], &word, 1), 1);
  kill(maker, SIGKILL);
  EXPECT_EQ(exit_code_of(maker), -SIGKILL);
  // The other end of the pipe closes when all processes that held it have ended.
  pollfd polled = {told[0], POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 10'000), 1);
  EXPECT_EQ(read(told[0], &word, 1), 0);
  close(told[0]);
}

}  // namespace
}  // namespace ffdl::testing
