#include "comm/shm/descriptor_exchange.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <thread>

#include "support/open_descriptors.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using base::ForkPrivateFd;
using testing::on_threads;
using testing::world_of;

Status go_on() {
  std::this_thread::yield();
  return {};
}

Status too_late() { return Status(StatusCode::kTimeout, "it is late"); }

ForkPrivateFd new_file() { return ForkPrivateFd(memfd_create("file", MFD_CLOEXEC)); }

// Returns the inode of the file.
ino_t file_of(const ForkPrivateFd& descriptor) {
  struct stat found = {};
  EXPECT_EQ(fstat(descriptor.get(), &found), 0);
  return found.st_ino;
}

struct Rank {
  DescriptorExchange exchange = DescriptorExchange::open().value();
  ForkPrivateFd own = new_file();
};

std::vector<DescriptorExchange::Address> addresses_of(const std::vector<Rank>& ranks) {
  std::vector<DescriptorExchange::Address> all;
  for (const Rank& rank : ranks) all.push_back(rank.exchange.address());
  return all;
}

World world_at(int rank, size_t ranks) {
  World world = world_of(static_cast<int>(ranks));
  world.rank = rank;
  return world;
}

// Sends as a stranger that knows only the name, with and without descriptors.
void send_as_a_stranger(const DescriptorExchange::Address& to, size_t bytes, size_t descriptors) {
  const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const ForkPrivateFd closes(from);
  const ForkPrivateFd sent = new_file();
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, to.name, to.name_bytes);
  std::vector<std::byte> message(bytes);
  iovec data = {message.data(), bytes};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_name = &name;
  header.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + to.name_bytes);
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (descriptors > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    for (size_t i = 0; i < descriptors; ++i) {
      const int descriptor = sent.get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof descriptor, &descriptor, sizeof descriptor);
    }
  }
  EXPECT_EQ(sendmsg(from, &header, 0), static_cast<ssize_t>(bytes));
}

TEST(DescriptorExchange, EachGetsThoseOfAllAndNoneOfAStranger) {
  const std::ptrdiff_t before = testing::open_descriptors();
  {
    std::vector<Rank> ranks(5);
    const auto all = addresses_of(ranks);
    for (const size_t bytes : {1U, 24U, 100U}) {
      for (const size_t descriptors : {0U, 1U, 2U}) {
        send_as_a_stranger(all[0], bytes, descriptors);
      }
    }
    std::vector<std::vector<ForkPrivateFd>> got(ranks.size());
    on_threads(static_cast<int>(ranks.size()), [&](int rank) {
      Rank& mine = ranks[static_cast<size_t>(rank)];
      auto taken = mine.exchange.run(world_at(rank, ranks.size()), all, mine.own.get(), go_on);
      ASSERT_OK(taken);
      got[static_cast<size_t>(rank)] = std::move(taken).value();
    });
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      ASSERT_EQ(got[rank].size(), ranks.size());
      for (size_t other = 0; other < ranks.size(); ++other) {
        EXPECT_EQ(got[rank][other].valid(), other != rank);
        if (other == rank) continue;
        EXPECT_EQ(file_of(got[rank][other]), file_of(ranks[other].own));
      }
    }
  }
  EXPECT_EQ(testing::open_descriptors(), before) << "somebody's descriptor stayed open";
}

TEST(DescriptorExchange, WhoIsWaitedForIsNamed) {
  std::vector<Rank> ranks(2);
  const auto all = addresses_of(ranks);
  EXPECT_FAILS(ranks[0].exchange.run(world_at(0, 2), all, ranks[0].own.get(), too_late),
               StatusCode::kTimeout, "rank 1 'm1' had sent no descriptor");
  ranks.pop_back();
  EXPECT_FAILS(ranks[0].exchange.run(world_at(0, 2), all, ranks[0].own.get(), too_late),
               StatusCode::kTimeout, "rank 1 'm1' had received no descriptor: Connection refused");
  EXPECT_FAILS(ranks[0].exchange.run(world_at(0, 2), all, ranks[0].own.get(),
                                     [] { return Status(StatusCode::kPeerLost, "it is gone"); }),
               StatusCode::kPeerLost, "it is gone");
}

TEST(DescriptorExchange, AWorldOfOneWaitsForNobody) {
  std::vector<Rank> ranks(1);
  ASSERT_OK_AND_ASSIGN(const auto got, ranks[0].exchange.run(world_at(0, 1), addresses_of(ranks),
                                                             ranks[0].own.get(), too_late));
  EXPECT_FALSE(got[0].valid());
}

}  // namespace
}  // namespace ffdl::comm
