#include "comm/network/meeting.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/limits.h"
#include "comm/network/greeting.h"
#include "net/unproved_limit.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using base::ForkPrivateFd;
using testing::soon;

World meeting_world(int rank, int ranks) {
  return {.generation = 4, .rank = rank, .members = testing::members_named(ranks), .job = "a"};
}

// Returns an invalid descriptor if no process listens.
ForkPrivateFd try_call(uint16_t port, const char* address = "127.0.0.1") {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, address, &to.sin_addr), 1);
  ForkPrivateFd fd(made);
  if (connect(made, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fd.close();
  return fd;
}

ForkPrivateFd call(uint16_t port) {
  ForkPrivateFd made = try_call(port);
  EXPECT_TRUE(made.valid());
  return made;
}

// A port of the loopback on which a process listens that is no member.
class Squatted {
 public:
  Squatted() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof at;
    EXPECT_EQ(bind(fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(fd(), 64), 0);
    EXPECT_EQ(getsockname(fd(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    port_ = ntohs(at.sin_port);
  }
  int fd() const { return fd_.get(); }
  uint16_t port() const { return port_; }

 private:
  const ForkPrivateFd fd_;
  uint16_t port_ = 0;
};

template <class Message>
void send_message(const ForkPrivateFd& fd, const Message& message) {
  EXPECT_EQ(send(fd.get(), &message, sizeof message, MSG_NOSIGNAL), ssize_t{sizeof message});
}

template <class Message>
bool receive_message(const ForkPrivateFd& fd, Message& message) {
  return recv(fd.get(), &message, sizeof message, MSG_WAITALL) == ssize_t{sizeof message};
}

class LinkMeetingTest : public ::testing::Test {
 protected:
  void listen(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto meeting = LinkMeeting::listen(meeting_world(rank, ranks), "127.0.0.1");
      ASSERT_OK(meeting);
      meetings_.push_back(std::move(*meeting));
      records_.push_back(to_record(meetings_.back().record()));
    }
  }
  uint16_t port_of(size_t rank) const { return meetings_[rank].record().port; }

  std::vector<LinkMeeting> meetings_;
  std::vector<std::string> records_;
};

// Exchanges the ranks over each connection between two members.
void expect_links(std::vector<std::vector<ForkPrivateFd>>& links) {
  const size_t ranks = links.size();
  for (size_t from = 0; from < ranks; ++from) {
    ASSERT_EQ(links[from].size(), ranks);
    for (size_t to = 0; to < ranks; ++to) {
      EXPECT_EQ(links[from][to].valid(), from != to);
      if (from != to) send_message(links[from][to], from);
    }
  }
  for (size_t to = 0; to < ranks; ++to) {
    for (size_t from = 0; from < ranks; ++from) {
      size_t told = ranks;
      if (from == to) continue;
      EXPECT_TRUE(receive_message(links[to][from], told));
      EXPECT_EQ(told, from);
    }
  }
}

TEST_F(LinkMeetingTest, EachMemberGetsAConnectionToEachOther) {
  listen(4);
  std::vector<std::vector<ForkPrivateFd>> links(4);
  testing::on_threads(4, [&](int rank) {
    auto made = meetings_[static_cast<size_t>(rank)].connect(records_, soon());
    ASSERT_OK(made);
    links[static_cast<size_t>(rank)] = std::move(*made);
  });
  expect_links(links);
}

// More strangers than fit connect before the member: silent ones, ones with an invalid proof, and
// ones that close at once.
TEST_F(LinkMeetingTest, StrangersAreDroppedAndTheMemberIsStillAccepted) {
  listen(2);
  std::vector<ForkPrivateFd> strangers;
  for (size_t i = 0; i < net::unproved_max() + 40; ++i) {
    strangers.push_back(call(port_of(0)));
    if (i % 3 == 0) send_message(strangers.back(), LinkProof{});
    if (i % 3 == 1) strangers.back().close();
  }
  std::vector<std::vector<ForkPrivateFd>> links(2);
  std::thread first([&] {
    auto made = meetings_[0].connect(records_, soon());
    ASSERT_OK(made);
    links[0] = std::move(*made);
  });
  // The oldest stranger has been accepted and dropped.
  LinkChallenge challenge;
  ASSERT_TRUE(receive_message(strangers.front(), challenge));
  char end = 0;
  EXPECT_LE(recv(strangers.front().get(), &end, 1, 0), 0);
  auto made = meetings_[1].connect(records_, soon());
  ASSERT_OK(made);
  links[1] = std::move(*made);
  first.join();
  expect_links(links);
}

// The member connected first, and fewer strangers follow than fit.
TEST_F(LinkMeetingTest, ABacklogOfStrangersDoesNotThrowOutAMember) {
  listen(2);
  const ForkPrivateFd member = call(port_of(0));
  std::vector<ForkPrivateFd> strangers;
  for (size_t i = 0; i + 8 < net::unproved_max(); ++i) strangers.push_back(call(port_of(0)));
  std::vector<std::string> seeds;
  for (const LinkMeeting& meeting : meetings_) seeds.push_back(meeting.record().seed);
  std::thread first([&] { EXPECT_OK(meetings_[0].connect(records_, soon())); });
  const World world = meeting_world(1, 2);
  const LinkGreeter greeter(world, link_token(world, seeds));
  LinkChallenge challenge;
  EXPECT_TRUE(receive_message(member, challenge));
  LinkChallenge last;
  EXPECT_TRUE(receive_message(strangers.back(), last));  // all have been accepted
  const auto proof = greeter.answer(challenge, 0);
  ASSERT_OK(proof);
  send_message(member, *proof);
  LinkWelcome welcome;
  EXPECT_TRUE(receive_message(member, welcome));
  EXPECT_OK(greeter.check(challenge, *proof, welcome));
  send_message(member, std::byte{1});  // it has all its connections
  first.join();
}

// The deadline is checked after a few connections, however many wait.
TEST_F(LinkMeetingTest, ABacklogDoesNotHoldUpTheDeadline) {
  listen(2);
  std::vector<ForkPrivateFd> strangers;
  for (size_t i = 0; i < 10 * base::kLinkAcceptsMax; ++i) strangers.push_back(call(port_of(0)));
  EXPECT_FAILS(meetings_[0].connect(records_, deadline_in({})), StatusCode::kTimeout,
               "rank 1 'm1' has not connected");
  const auto accepted = std::ranges::count_if(strangers, [](const ForkPrivateFd& stranger) {
    LinkChallenge challenge;
    return receive_message(stranger, challenge);
  });
  EXPECT_LE(accepted, base::kLinkAcceptsMax);
}

// Models a member that has ended and whose port another process has got.
// A host has other addresses, such as that of a public network.
TEST_F(LinkMeetingTest, IsReachedAtItsAddressOnly) {
  listen(1);
  EXPECT_TRUE(try_call(port_of(0)).valid());
  EXPECT_FALSE(try_call(port_of(0), "127.0.0.2").valid());
}

TEST_F(LinkMeetingTest, AStrangerAtTheAddressOfAMemberIsRefused) {
  listen(2);
  const Squatted squatted;
  LinkRecord moved = meetings_[0].record();
  moved.port = squatted.port();
  records_[0] = to_record(moved);
  for (const bool knows_how : {false, true}) {
    std::thread stranger([&] {
      const ForkPrivateFd caller(accept(squatted.fd(), nullptr, nullptr));
      const auto challenge = LinkGreeter::challenge();
      LinkProof proof{};
      if (knows_how) {
        send_message(caller, *challenge);
        EXPECT_TRUE(receive_message(caller, proof));
      }
      for (int i = 0; i < 2; ++i) send_message(caller, LinkWelcome{proof.mac});
      char end = 0;
      EXPECT_LE(recv(caller.get(), &end, 1, 0), 0);
    });
    ASSERT_OK_AND_ASSIGN(LinkMeeting meeting,
                         LinkMeeting::listen(meeting_world(1, 2), "127.0.0.1"));
    EXPECT_FAILS(meeting.connect(records_, soon()), StatusCode::kPeerLost,
                 "the address of rank 0 'm0'; form a new world");
    stranger.join();
  }
}

// Another process has got the port of a lost member. The loss is detected long before the deadline,
// or at once if that process closes its connections, whatever else it does with them.
TEST_F(LinkMeetingTest, WhatNeverProvesItselfIsKnownInTime) {
  enum class Does { kNothing, kClose, kChallengeAndClose, kWaitAndClose, kChallengeAtTimes };
  for (const Does does : {Does::kNothing, Does::kClose, Does::kChallengeAndClose,
                          Does::kWaitAndClose, Does::kChallengeAtTimes}) {
    listen(2);
    const Squatted squatted;
    LinkRecord moved = meetings_[0].record();
    moved.port = squatted.port();
    records_[0] = to_record(moved);
    std::atomic<int> closed = 0;
    // If the stranger does nothing, the kernel accepts the connection.
    std::thread stranger([&] {
      while (does != Does::kNothing) {
        const ForkPrivateFd caller(accept(squatted.fd(), nullptr, nullptr));
        if (!caller.valid()) return;
        const bool is_third = does == Does::kChallengeAtTimes && closed % 3 == 2;
        if (does == Does::kChallengeAndClose || is_third) {
          send_message(caller, *LinkGreeter::challenge());
        }
        pollfd ends = {caller.get(), POLLRDHUP, 0};
        if (does == Does::kWaitAndClose) poll(&ends, 1, 700);
        ++closed;
      }
    });
    const auto made = meetings_[1].connect(records_, deadline_in(10min));
    if (does != Does::kClose) {
      const std::string place = "127.0.0.1 port " + std::to_string(squatted.port());
      EXPECT_FAILS(made, StatusCode::kPeerLost,
                   "rank 0 'm0' cannot be reached: " + place +
                       ": the process that listens there accepted a connection, but did not prove "
                       "within 2 s");
    } else {
      EXPECT_FAILS(made, StatusCode::kPeerLost, "has closed 5 connections in a row");
    }
    shutdown(squatted.fd(), SHUT_RDWR);
    stranger.join();
    EXPECT_GE(closed, does == Does::kClose ? base::kLinkClosedMax : 0);
    meetings_.clear();
    records_.clear();
  }
}

// An earlier deadline of the caller is reported as such.
TEST_F(LinkMeetingTest, WhatIsSilentUntilAnEarlyDeadlineIsLate) {
  listen(2);
  const Squatted squatted;
  LinkRecord moved = meetings_[0].record();
  moved.port = squatted.port();
  records_[0] = to_record(moved);
  EXPECT_FAILS(meetings_[1].connect(records_, deadline_in(30ms)), StatusCode::kTimeout,
               "rank 0 'm0' has not connected");
}

TEST_F(LinkMeetingTest, AMemberThatIsGoneIsALossAndOneThatDoesNotComeIsNamed) {
  listen(3);
  {
    const LinkMeeting gone = std::move(meetings_[0]);
  }
  EXPECT_FAILS(meetings_[1].connect(records_, soon()), StatusCode::kPeerLost,
               "connect generation 4 of job 'a' as rank 1: rank 0 'm0' cannot be reached");
  ASSERT_OK_AND_ASSIGN(LinkMeeting alone, LinkMeeting::listen(meeting_world(0, 3), "127.0.0.1"));
  records_[0] = to_record(alone.record());
  const ForkPrivateFd stranger = call(alone.record().port);
  send_message(stranger, LinkProof{});
  // It gives up by itself, long after it has taken the stranger's message.
  EXPECT_FAILS(alone.connect(records_, soon()), StatusCode::kTimeout,
               "rank 1 'm1' has not connected by the deadline (connections of others: 1)");
}

// The member has connected and failed before the others connected. On a busy machine the two may
// not have met by its deadline; then again.
TEST_F(LinkMeetingTest, AMemberThatFailsMeanwhileIsALoss) {
  Status of_first(StatusCode::kTimeout, "not yet");
  Status of_second;
  for (int attempt = 0; attempt < 10 && of_first.code() == StatusCode::kTimeout; ++attempt) {
    meetings_.clear();
    records_.clear();
    listen(3);
    std::thread first([&] { of_first = meetings_[0].connect(records_, soon()).status(); });
    of_second = meetings_[1].connect(records_, deadline_in(500ms)).status();
    first.join();
  }
  EXPECT_FAILS(of_first, StatusCode::kPeerLost,
               "rank 1 'm1' cannot be reached: it has closed its connection");
  EXPECT_FAILS(of_second, StatusCode::kTimeout, "rank 2 'm2' has not connected");
}

// The missing member is reported, but not one that had no time to connect.
TEST_F(LinkMeetingTest, AMemberThatRefusesIsTold) {
  listen(3);
  {
    const LinkMeeting gone = std::move(meetings_[0]);
  }
  std::vector<int> unreached;
  const CommunicatorOptions options = {.unreached = [&](int rank) { unreached.push_back(rank); }};
  EXPECT_FAILS(meetings_[1].connect(records_, soon(), options), StatusCode::kPeerLost,
               "rank 0 'm0' cannot be reached");
  EXPECT_EQ(unreached, std::vector<int>{0});
}

// The report precedes a long deadline, which leaves time for members that join the store late.
TEST_F(LinkMeetingTest, MembersThatDoNotConnectAreTold) {
  listen(3);
  std::vector<int> unreached;
  const CommunicatorOptions options = {.unreached = [&](int rank) { unreached.push_back(rank); }};
  const Time begin = std::chrono::steady_clock::now();
  EXPECT_FAILS(meetings_[0].connect(records_, deadline_in(10min), options), StatusCode::kTimeout,
               "rank 1 'm1' has not connected");
  EXPECT_EQ(unreached, (std::vector<int>{1, 2}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1min);
}

TEST_F(LinkMeetingTest, WhatALookFindsEndsIt) {
  listen(2);
  int looks = 0;
  const CommunicatorOptions options = {
      .interrupt_check =
          [&] { return ++looks < 3 ? Status() : Status(StatusCode::kWorldChanged, "newer"); },
      .unreached = [](int rank) { ADD_FAILURE() << rank; }};
  EXPECT_FAILS(meetings_[0].connect(records_, soon(), options), StatusCode::kWorldChanged, "newer");
}

TEST(LinkRecord, ComesBackFromItsTextAndAnythingElseIsCorrupt) {
  const LinkRecord record = {.address = "::1", .port = 7, .seed = std::string(32, '\x01')};
  ASSERT_OK_AND_ASSIGN(const LinkRecord got, link_record_of(to_record(record)));
  EXPECT_EQ(got.address, record.address);
  EXPECT_EQ(got.port, record.port);
  EXPECT_EQ(got.seed, record.seed);
  const std::string text = to_record(record);
  for (const std::string& wrong :
       {std::string(), std::string("::1"), std::string("::1 7"), text + "=",
        text.substr(0, text.size() - 4), "host 7 " + text.substr(6), "::1 0 " + text.substr(6),
        "::1 70000 " + text.substr(6), "::1  " + text.substr(6)}) {
    EXPECT_FAILS(link_record_of(wrong), StatusCode::kCorrupt, "no address, port and seed");
  }
}

}  // namespace
}  // namespace ffdl::comm
