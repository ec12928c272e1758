#include "comm/network/links.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <thread>

#include "base/fork_private_fd.h"
#include "base/mutex.h"
#include "comm/network/greeting.h"
#include "comm/network/meeting.h"
#include "comm/operation/world_key.h"
#include "ffdl/comm/shared_memory.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::soon;

// The links of each back end.
class LinksTest : public ::testing::TestWithParam<Backend> {
 protected:
  using Mesh = std::vector<std::unique_ptr<Links>>;

  void SetUp() override {
    if (GetParam() == Backend::kGloo && !have_gloo().ok()) GTEST_SKIP() << have_gloo().to_string();
  }

  static Result<std::unique_ptr<Links>> connect_links(const World& world, Store& store,
                                                      Time deadline, const std::string& address) {
    const bool by_gloo = GetParam() == Backend::kGloo;
    const auto connect_by = by_gloo ? connect_gloo_links : connect_tcp_links;
    auto met = connect_by(world, store, deadline, address, {});
    FFDL_RETURN_IF_ERROR(met.status());
    EXPECT_OK(store.end_lease(met->record));
    return std::move(met->links);
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

TEST_P(LinksTest, MessagesOfATagArriveInOrderAndShortOnesFit) {
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
    ASSERT_OK(out->send(1 - rank, Tag::kResult, 8, 4));  // shorter than the receiver's room
    ASSERT_OK(out->send(1 - rank, Tag::kInput, 0, 4));
    ASSERT_OK(out->send(1 - rank, Tag::kInput, 4, 4));
    ASSERT_OK(in->wait(soon()));
    ASSERT_OK(out->wait(soon()));
    EXPECT_EQ(got, (std::vector<int>{1 - rank, 11 - rank, 21 - rank, -1}));
  });
}

TEST_P(LinksTest, WhoWaitsIsToldOfADeadlineAStopAndALoss) {
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
    mesh[0]->close();
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

// Sends more than the connection buffers. The message cannot be sent before the other side reads,
// which it never does.
TEST_P(LinksTest, WhoSendsToALostPeerIsTold) {
  Mesh mesh = connect(2);
  std::vector<int> values(10'000'000);
  const auto place = mesh[0]->make_place(bytes_of(values), values.size() * sizeof(int));
  ASSERT_OK(place->send(1, Tag::kInput, 0, values.size() * sizeof(int)));
  std::thread leaver([&] { mesh[1].reset(); });
  EXPECT_FAILS(place->wait(kNoDeadline), StatusCode::kPeerLost, "rank 1 'm1'");
  leaver.join();
}

// Some of the message has been written, and the rest waits for the socket.
TEST_P(LinksTest, WhoSendsToAPeerThatDiesInTheMiddleOfAMessageIsTold) {
  const TempFolder folder;
  const auto join = [&](int rank) {
    const auto store = open_store("file://" + folder.path(), system_runtime());
    return connect_links({1, rank, testing::members_named(2)}, **store, soon(), "127.0.0.1");
  };
  std::vector<int> values(10'000'000);
  const uint64_t bytes = values.size() * sizeof(int);
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const auto links = join(1);
    const auto place = (*links)->make_place(bytes_of(values), bytes);
    if (!place->receive(0, Tag::kInput, 0, bytes).ok()) _exit(1);
    const volatile int& first = values.front();
    while (first == 0) {
      std::this_thread::yield();
      // Only a waiting thread moves the bytes.
      if (GetParam() == Backend::kTcp) static_cast<void>(place->wait(deadline_in({})));
    }
    kill(getpid(), SIGKILL);
  }
  ASSERT_OK_AND_ASSIGN(const auto links, join(0));
  values.front() = 1;
  const auto place = links->make_place(bytes_of(values), bytes);
  // On a busy machine the peer may have died before this returns.
  Status status = place->send(1, Tag::kInput, 0, bytes);
  if (status.ok()) status = place->wait(soon());
  EXPECT_FAILS(status, StatusCode::kPeerLost, "rank 1 'm1'");
  int outcome = 0;
  waitpid(child, &outcome, 0);
  EXPECT_TRUE(WIFSIGNALED(outcome));
}

// Some of the message has been read, which its sender observes in shared memory. The test is
// repeated if all of it was received before the death.
TEST_P(LinksTest, WhoReceivesFromAPeerThatDiesInTheMiddleOfAMessageIsTold) {
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
    const pid_t child = testing::fork_child();
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

TEST_P(LinksTest, WritingToWhoHasLeftRaisesNoSignal) {
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

TEST_P(LinksTest, AForkLetsGoOfThemAndTheParentsGoOn) {
  Mesh mesh = connect(2);
  const pid_t child = testing::fork_child();
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

// A store that reports the port of each member to a stranger. It waits until the stranger has
// connected, so that the other member learns the port later.
class PortTellingStore final : public Store {
 public:
  PortTellingStore(Store& store, int to, int from) : store_(store), to_(to), from_(from) {}

  Result<Entry> get(std::string_view key) override { return store_.get(key); }
  Result<std::vector<Entry>> list(std::string_view prefix) override { return store_.list(prefix); }
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override {
    return store_.put(key, value, lease);
  }
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    const auto record = link_record_of(value);
    if (record.ok()) {
      const base::MutexLock lock(mutex_);
      EXPECT_EQ(write(to_, &record->port, sizeof record->port), ssize_t{sizeof record->port});
      char connected = 0;
      EXPECT_EQ(read(from_, &connected, 1), 1);
    }
    return store_.compare_and_put(key, expected, value, lease);
  }
  Status remove(std::string_view key) override { return store_.remove(key); }
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override {
    return store_.wait_change(prefix, after, deadline);
  }
  Result<LeaseId> grant_lease(Duration ttl) override { return store_.grant_lease(ttl); }
  Status keep_alive(LeaseId lease) override { return store_.keep_alive(lease); }
  Status end_lease(LeaseId lease) override { return store_.end_lease(lease); }

 private:
  Store& store_;
  base::Mutex mutex_;
  const int to_;
  const int from_;
};

// A store that returns another port for each member than its own.
class MovedPortStore final : public Store {
 public:
  using Move = std::function<uint16_t(uint16_t port)>;
  MovedPortStore(Store& store, Move move) : store_(store), move_(std::move(move)) {}

  Result<Entry> get(std::string_view key) override { return store_.get(key); }
  Result<std::vector<Entry>> list(std::string_view prefix) override { return store_.list(prefix); }
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override {
    return store_.put(key, value, lease);
  }
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    auto record = link_record_of(value);
    if (!record.ok()) return store_.compare_and_put(key, expected, value, lease);
    record->port = move_(record->port);
    return store_.compare_and_put(key, expected, to_record(*record), lease);
  }
  Status remove(std::string_view key) override { return store_.remove(key); }
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override {
    return store_.wait_change(prefix, after, deadline);
  }
  Result<LeaseId> grant_lease(Duration ttl) override { return store_.grant_lease(ttl); }
  Status keep_alive(LeaseId lease) override { return store_.keep_alive(lease); }
  Status end_lease(LeaseId lease) override { return store_.end_lease(lease); }

 private:
  Store& store_;
  const Move move_;
};

// The kernel accepts for a process that listens and does nothing else.
TEST_P(LinksTest, ASilentListenerAtThePortOfAMemberIsALoss) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const World squatter = {1, 0, testing::members_named(2)};
  ASSERT_OK_AND_ASSIGN(const LinkMeeting silent, LinkMeeting::listen(squatter, "127.0.0.1"));
  MovedPortStore moved(*store, [&](uint16_t) { return silent.record().port; });
  const std::string place = "127.0.0.1 port " + std::to_string(silent.record().port);
  const Time begin = deadline_in({});
  testing::on_threads(2, [&](int rank) {
    const World world = {1, rank, testing::members_named(2)};
    const auto made =
        connect_communicator(world, moved, deadline_in(10min), {.backend = GetParam()});
    if (rank == 0) {
      EXPECT_FAILS(made, StatusCode::kTimeout, "rank 1 'm1' has not connected");
    } else {
      EXPECT_FAILS(made, StatusCode::kPeerLost, "rank 0 'm0' cannot be reached: " + place);
    }
  });
  EXPECT_LT(deadline_in({}) - begin, 1min);
}

sockaddr_in loopback_at(uint16_t port) {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

// Passes one connection per port on, and keeps what passes.
class Wiretap {
 public:
  ~Wiretap() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // Returns a port that leads to `port`.
  uint16_t before(uint16_t port) {
    base::ForkPrivateFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at = loopback_at(0);
    socklen_t bytes = sizeof at;
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), bytes), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    const base::MutexLock lock(mutex_);
    threads_.emplace_back(
        [this, port, listener = std::move(listener)] { pass_on(listener.get(), port); });
    return ntohs(at.sin_port);
  }

  std::string seen() {
    const base::MutexLock lock(mutex_);
    return seen_;
  }

 private:
  bool wait_for(int one, int other) const {
    std::array<pollfd, 2> polled = {pollfd{one, POLLIN, 0}, pollfd{other, POLLIN, 0}};
    return poll(polled.data(), polled.size(), 10) > 0;
  }

  void pass_on(int listener, uint16_t port) {
    while (!is_over_ && !wait_for(listener, -1)) {
    }
    if (is_over_) return;
    const base::ForkPrivateFd caller(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    const base::ForkPrivateFd called(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = loopback_at(port);
    EXPECT_EQ(connect(called.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    std::vector<char> bytes(size_t{64} << 10);
    while (!is_over_) {
      if (!wait_for(caller.get(), called.get())) continue;
      for (const auto& [from, onward] :
           {std::pair(caller.get(), called.get()), std::pair(called.get(), caller.get())}) {
        const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got == 0) return;
        if (got < 0) continue;
        {
          const base::MutexLock lock(mutex_);
          seen_.append(bytes.data(), static_cast<size_t>(got));
        }
        if (send(onward, bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL) != got) return;
      }
    }
  }

  base::Mutex mutex_;
  std::vector<std::thread> threads_;
  std::string seen_ FFDL_GUARDED_BY(mutex_);
  std::atomic<bool> is_over_ = false;
};

// Sums small and large values over a wire that is read.
std::string seen_on_the_wire(const std::string& text, bool tls) {
  const auto store = open_store("mem://", system_runtime());
  Wiretap tap;
  MovedPortStore moved(**store, [&](uint16_t port) { return tap.before(port); });
  testing::on_threads(2, [&](int rank) {
    const World world = {1, rank, testing::members_named(2)};
    const auto made =
        connect_communicator(world, moved, soon(), {.backend = Backend::kTcp, .tls = tls});
    ASSERT_OK(made);
    for (const uint64_t count : {1'000U, 1'000'000U}) {
      std::vector<int8_t> values(count);
      if (rank == 0) std::ranges::copy(text, values.end() - std::ssize(text));
      ASSERT_OK((*made)->all_reduce({values.data(), count, DType::kInt8}, ReduceOp::kSum, soon()));
      EXPECT_TRUE(std::equal(text.begin(), text.end(), values.end() - std::ssize(text)));
    }
  });
  return tap.seen();
}

TEST(TcpLinksTest, TlsHidesWhatPasses) {
  const std::string text = "what the members add up";
  EXPECT_NE(seen_on_the_wire(text, /*tls=*/false).find(text), std::string::npos);
  const std::string encrypted = seen_on_the_wire(text, /*tls=*/true);
  EXPECT_GT(encrypted.size(), 1'000'000U);
  EXPECT_EQ(encrypted.find(text), std::string::npos);
}

// Sends as a stranger: nothing, noise, or a message of gloo's that no member expects. That message
// ends a process that reads it. Other kinds are proofs of rank 1 of this world: without a token, or
// with a token of other seeds.
void send_as_stranger(int fd, uint64_t kind, uint64_t generation) {
  const uint64_t of_gloo[6] = {56, 1, 0, 0, 8, 0};
  const std::string noise(200, 'x');
  const World world = {
      .generation = generation, .rank = 1, .members = testing::members_named(2), .job = "a"};
  const LinkGreeter greeter(world, link_token(world, {"a", "b"}));
  switch (kind % 5) {
    case 1:
      static_cast<void>(send(fd, noise.data(), noise.size(), MSG_NOSIGNAL));
      break;
    case 2:
      static_cast<void>(send(fd, of_gloo, sizeof of_gloo, MSG_NOSIGNAL));
      break;
    case 3: {
      const LinkProof empty = {.generation = generation,
                               .members = world_hash(world),
                               .from = 1,
                               .to = 0,
                               .nonce = {},
                               .mac = {}};
      static_cast<void>(send(fd, &empty, sizeof empty, MSG_NOSIGNAL));
      break;
    }
    case 4: {
      LinkChallenge challenge{};
      if (recv(fd, &challenge, sizeof challenge, MSG_WAITALL) != ssize_t{sizeof challenge}) return;
      const auto proof = greeter.answer(challenge, 0);
      static_cast<void>(send(fd, &*proof, sizeof *proof, MSG_NOSIGNAL));
      break;
    }
    default:
      break;
  }
}

// Connects ten times to each port that it reads, until no more ports follow. Runs as another user
// if that is permitted. Writes to `report` after the first connection to each, and at the end the
// number of connections.
int attack(int ports, int report) {
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 1;
  uint64_t taken = 0;
  uint64_t told = 0;  // ports read, two per world
  uint16_t port = 0;
  std::deque<base::ForkPrivateFd> open;
  while (read(ports, &port, sizeof port) == ssize_t{sizeof port}) {
    const uint64_t generation = 1 + told++ / 2;
    for (uint64_t i = 0; i < 10; ++i) {
      base::ForkPrivateFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in to = loopback_at(port);
      if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) break;
      if (i == 0 && write(report, "c", 1) != 1) return 1;
      // The member may be waiting for the report of another port.
      const timeval patience = {.tv_sec = 0, .tv_usec = 2000};
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      send_as_stranger(fd.get(), ++taken, generation);
      open.push_back(std::move(fd));
      if (open.size() > 100) open.pop_front();
    }
  }
  return write(report, &taken, sizeof taken) == ssize_t{sizeof taken} ? 0 : 1;
}

// Every world forms, and no sum is wrong, whatever connects to the members' ports.
TEST_P(LinksTest, AStrangerThatConnectsFirstIsNoMember) {
  constexpr int kWorlds = 100;
  constexpr int kRanks = 2;
  int ports[2] = {};
  int report[2] = {};
  ASSERT_EQ(pipe2(ports, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
  const pid_t stranger = testing::fork_child();
  if (stranger == 0) {
    ::close(ports[1]);
    _exit(attack(ports[0], report[1]));
  }
  ::close(ports[0]);
  ::close(report[1]);
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  PortTellingStore telling(*store, ports[1], report[0]);
  for (uint64_t generation = 1; generation <= kWorlds; ++generation) {
    testing::on_threads(kRanks, [&](int rank) {
      const World world = {.generation = generation,
                           .rank = rank,
                           .members = testing::members_named(kRanks),
                           .job = "a"};
      const auto made = connect_communicator(world, telling, soon(), {.backend = GetParam()});
      ASSERT_OK(made);
      std::vector<int64_t> values(100'000, rank + 1);
      ASSERT_OK((*made)->all_reduce({values.data(), values.size(), DType::kInt64}, ReduceOp::kSum,
                                    soon()));
      EXPECT_EQ(std::ranges::count(values, 3), std::ssize(values));
    });
    if (HasFailure()) break;
  }
  ::close(ports[1]);
  uint64_t taken = 0;
  EXPECT_EQ(read(report[0], &taken, sizeof taken), ssize_t{sizeof taken});
  EXPECT_GE(taken, uint64_t{kWorlds * kRanks}) << "connections of the stranger";
  EXPECT_EQ(testing::exit_code(stranger), 0);
  ::close(report[0]);
}

TEST_P(LinksTest, AnAddressThatIsNotOursIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const World world = {1, 0, testing::members_named(1)};
  for (const std::string address : {"no.such.host.invalid", "192.0.2.7", "", "127.0.0.1:80"}) {
    EXPECT_FAILS(connect_links(world, *store, soon(), address), StatusCode::kInvalidArgument,
                 "listen at '" + address);
  }
}

INSTANTIATE_TEST_SUITE_P(BackEnds, LinksTest, ::testing::Values(Backend::kTcp, Backend::kGloo),
                         [](const auto& test) {
                           return test.param == Backend::kTcp ? "tcp" : "gloo";
                         });

}  // namespace
}  // namespace ffdl::comm
