#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "comm/links.h"
#include "ffdl/shared_memory.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::soon;

class GlooLinksTest : public ::testing::Test {
 protected:
  using Mesh = std::vector<std::unique_ptr<Links>>;

  void SetUp() override {
    if (!have_links().ok()) GTEST_SKIP() << have_links().to_string();
  }

  static Mesh connect(int ranks) {
    auto store = open_store("mem://", system_runtime());
    Mesh mesh(static_cast<size_t>(ranks));
    testing::on_threads(ranks, [&](int rank) {
      auto links =
          connect_links({1, rank, testing::members_named(ranks)}, **store, soon(), "127.0.0.1");
      ASSERT_OK(links);
      mesh[static_cast<size_t>(rank)] = std::move(links).value();
    });
    const auto left = (*store)->list("comm/");
    EXPECT_TRUE(left.ok() && left->empty()) << "what they told each other is left in the store";
    return mesh;
  }
};

std::byte* bytes_of(std::vector<int>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

TEST_F(GlooLinksTest, MessagesOfATagArriveInOrderAndShortOnesFit) {
  const Mesh mesh = connect(2);
  testing::on_threads(2, [&](int rank) {
    Links& links = *mesh[static_cast<size_t>(rank)];
    std::vector<int> given = {rank, rank + 10, rank + 20, rank + 30};
    std::vector<int> got(4, -1);
    const auto out = links.make_place(bytes_of(given), 16);
    const auto in = links.make_place(bytes_of(got), 16);
    ASSERT_OK(in->receive(1 - rank, Tag::kInput, 0, 4));
    ASSERT_OK(in->receive(1 - rank, Tag::kResult, 8, 8));
    ASSERT_OK(in->receive(1 - rank, Tag::kInput, 4, 4));
    ASSERT_OK(out->send(1 - rank, Tag::kResult, 8, 4));  // shorter than its room
    ASSERT_OK(out->send(1 - rank, Tag::kInput, 0, 4));
    ASSERT_OK(out->send(1 - rank, Tag::kInput, 4, 4));
    ASSERT_OK(in->wait(soon()));
    ASSERT_OK(out->wait(soon()));
    EXPECT_EQ(got, (std::vector<int>{1 - rank, 11 - rank, 21 - rank, -1}));
  });
}

TEST_F(GlooLinksTest, WhoWaitsIsToldOfADeadlineAStopAndALoss) {
  Mesh mesh = connect(3);
  int value = 0;
  const auto room = [&](size_t rank) {
    return mesh[rank]->make_place(reinterpret_cast<std::byte*>(&value), sizeof value);
  };
  {
    const auto place = room(0);
    ASSERT_OK(place->receive(2, Tag::kInput, 0, sizeof value));
    EXPECT_FAILS(place->wait(deadline_in(20ms)), StatusCode::kTimeout, "the deadline passed");
  }
  {
    // The first gave up, which ended its connections.
    const auto place = room(1);
    EXPECT_FAILS(place->receive(0, Tag::kInput, 0, sizeof value).ok()
                     ? place->wait(soon())
                     : place->receive(0, Tag::kInput, 0, sizeof value),
                 StatusCode::kPeerLost, "rank 0 'm0' died, failed or left");
  }
  const auto place = room(1);
  ASSERT_OK(place->receive(2, Tag::kInput, 0, sizeof value));
  std::thread stopper([&] { mesh[1]->stop(); });
  EXPECT_FAILS(place->wait(kNoDeadline), StatusCode::kCancelled, "stopped");
  stopper.join();
}

// More than the connection holds: it cannot be sent before the other side reads, which it never
// does.
TEST_F(GlooLinksTest, WhoSendsToALostPeerIsTold) {
  Mesh mesh = connect(2);
  std::vector<int> values(10'000'000);
  const auto place = mesh[0]->make_place(bytes_of(values), values.size() * sizeof(int));
  ASSERT_OK(place->send(1, Tag::kInput, 0, values.size() * sizeof(int)));
  std::thread leaver([&] { mesh[1].reset(); });
  EXPECT_FAILS(place->wait(kNoDeadline), StatusCode::kPeerLost, "rank 1 'm1'");
  leaver.join();
}

// Some of the message has been written, the rest waits for the socket.
TEST_F(GlooLinksTest, WhoSendsToAPeerThatDiesInTheMiddleOfAMessageIsTold) {
  const TempFolder folder;
  const auto join = [&](int rank) {
    const auto store = open_store("file://" + folder.path(), system_runtime());
    return connect_links({1, rank, testing::members_named(2)}, **store, soon(), "127.0.0.1");
  };
  std::vector<int> values(10'000'000);
  const uint64_t bytes = values.size() * sizeof(int);
  const pid_t child = fork();
  if (child == 0) {
    const auto links = join(1);
    const auto place = (*links)->make_place(bytes_of(values), bytes);
    if (!place->receive(0, Tag::kInput, 0, bytes).ok()) _exit(1);
    const volatile int& first = values.front();
    while (first == 0) std::this_thread::yield();
    kill(getpid(), SIGKILL);
  }
  ASSERT_OK_AND_ASSIGN(const auto links, join(0));
  values.front() = 1;
  const auto place = links->make_place(bytes_of(values), bytes);
  ASSERT_OK(place->send(1, Tag::kInput, 0, bytes));
  EXPECT_FAILS(place->wait(soon()), StatusCode::kPeerLost, "rank 1 'm1'");
  int outcome = 0;
  waitpid(child, &outcome, 0);
  EXPECT_TRUE(WIFSIGNALED(outcome));
}

// Some of the message has been read, which its sender sees in memory that both have. Where all of
// it was there before the death, once more.
TEST_F(GlooLinksTest, WhoReceivesFromAPeerThatDiesInTheMiddleOfAMessageIsTold) {
  constexpr uint64_t kBytes = 40'000'000;
  const auto received = SharedMemory::allocate(kBytes);
  ASSERT_OK(received);
  const volatile std::byte& first = *(*received)->data();
  Status status;
  for (uint64_t attempt = 1; status.ok() && attempt <= 20; ++attempt) {
    const TempFolder folder;
    const auto join = [&](int rank) {
      const auto store = open_store("file://" + folder.path(), system_runtime());
      return connect_links({attempt, rank, testing::members_named(2)}, **store, soon(),
                           "127.0.0.1");
    };
    *(*received)->data() = std::byte{0};
    const pid_t child = fork();
    if (child == 0) {
      std::vector<std::byte> values(kBytes, std::byte{1});
      const auto links = join(1);
      const auto place = (*links)->make_place(values.data(), kBytes);
      if (!place->send(0, Tag::kInput, 0, kBytes).ok()) _exit(1);
      while (first == std::byte{0}) std::this_thread::yield();
      kill(getpid(), SIGKILL);
    }
    ASSERT_OK_AND_ASSIGN(const auto links, join(0));
    const auto place = links->make_place((*received)->data(), kBytes);
    ASSERT_OK(place->receive(1, Tag::kInput, 0, kBytes));
    status = place->wait(soon());
    waitpid(child, nullptr, 0);
  }
  EXPECT_FAILS(status, StatusCode::kPeerLost, "rank 1 'm1'");
}

TEST_F(GlooLinksTest, WritingToWhoHasLeftRaisesNoSignal) {
  Mesh mesh = connect(2);
  mesh[1]->close();
  int value = 0;
  const auto place = mesh[0]->make_place(reinterpret_cast<std::byte*>(&value), sizeof value);
  Status status;
  while (status.ok()) status = place->send(1, Tag::kFirst, 0, sizeof value);
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST_F(GlooLinksTest, AForkLetsGoOfThemAndTheParentsGoOn) {
  Mesh mesh = connect(2);
  const pid_t child = fork();
  if (child == 0) {
    mesh.clear();
    _exit(0);
  }
  int outcome = -1;
  waitpid(child, &outcome, 0);
  EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
  std::array<int, 2> values = {1, 2};
  const auto out = mesh[0]->make_place(reinterpret_cast<std::byte*>(values.data()), 4);
  const auto in = mesh[1]->make_place(reinterpret_cast<std::byte*>(&values[1]), 4);
  ASSERT_OK(in->receive(0, Tag::kFirst, 0, 4));
  ASSERT_OK(out->send(1, Tag::kFirst, 0, 4));
  ASSERT_OK(in->wait(soon()));
  ASSERT_OK(out->wait(soon()));
  EXPECT_EQ(values[1], 1);
}

TEST_F(GlooLinksTest, AnAddressThatIsNotOursIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const World world = {1, 0, testing::members_named(1)};
  for (const std::string address : {"no.such.host.invalid", "192.0.2.7", "", "127.0.0.1:80"}) {
    EXPECT_FAILS(connect_links(world, *store, soon(), address), StatusCode::kInvalidArgument,
                 "listen at '" + address);
  }
}

}  // namespace
}  // namespace ffdl::comm
