#include "comm/shm/descriptor_exchange.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "base/errors.h"
#include "base/resource_limit.h"

namespace ffdl::comm {
namespace {

constexpr std::string_view kExchange = "exchange descriptors";
constexpr size_t kFamilyBytes = offsetof(sockaddr_un, sun_path);

struct Message {
  uint64_t secret = 0;  // of the receiver
  uint64_t generation = 0;
  int32_t rank = -1;  // of the sender
  int32_t reserved = 0;
};

// Room for the kernel's data on a message: its sender, and a descriptor.
union Control {
  cmsghdr header;  // for its alignment
  std::byte bytes[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))];
};

// The data that came with a message. Only foreign processes send several descriptors; the last is
// kept.
struct Came {
  base::ForkPrivateFd descriptor{};
  std::optional<uid_t> user{};
};

Came read_control(msghdr& header) {
  Came came;
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    if (at->cmsg_level != SOL_SOCKET) continue;
    if (at->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(at), sizeof sender);
      came.user = sender.uid;
    } else if (at->cmsg_type == SCM_RIGHTS) {
      const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(at) + i * sizeof descriptor, sizeof descriptor);
        came.descriptor = base::ForkPrivateFd(descriptor);
      }
    }
  }
  return came;
}

Status failure(int error) {
  return base::system_failure(kExchange, error, "see whether unix sockets can be made here");
}

}  // namespace

Result<DescriptorExchange> DescriptorExchange::open() {
  const int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return failure(errno);
  base::ForkPrivateFd opened(made);
  if (!opened.valid()) return failure(EMFILE);
  const int on = 1;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof name;
  auto* const place = reinterpret_cast<sockaddr*>(&name);
  Address address;
  if (setsockopt(opened.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      bind(opened.get(), place, kFamilyBytes) != 0 ||  // no name: the kernel chooses one
      getsockname(opened.get(), place, &bytes) != 0 ||
      getrandom(&address.secret, sizeof address.secret, 0) != ssize_t{sizeof address.secret}) {
    return failure(errno);
  }
  address.name_bytes = bytes - kFamilyBytes;
  if (address.name_bytes > sizeof address.name) return failure(ENAMETOOLONG);
  std::memcpy(address.name, name.sun_path, address.name_bytes);
  return DescriptorExchange(std::move(opened), address);
}

bool DescriptorExchange::send(const World& world, const Address& to, int own,
                              int& hindrance) const {
  Message message = {.secret = to.secret, .generation = world.generation, .rank = world.rank};
  iovec data = {&message, sizeof message};
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, to.name, to.name_bytes);
  Control control{};
  msghdr header{};
  header.msg_name = &name;
  header.msg_namelen = static_cast<socklen_t>(kFamilyBytes + to.name_bytes);
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = CMSG_SPACE(sizeof own);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof own);
  std::memcpy(CMSG_DATA(rights), &own, sizeof own);
  if (sendmsg(socket_.get(), &header, MSG_NOSIGNAL) == ssize_t{sizeof message}) return true;
  hindrance = errno;
  return false;
}

Status DescriptorExchange::take(const World& world, std::vector<base::ForkPrivateFd>& taken) const {
  while (true) {
    Message message;
    iovec data = {&message, sizeof message};
    Control control{};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof control.bytes;
    const ssize_t bytes = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (bytes < 0) return failure(errno);
    Came came = read_control(header);
    const bool whole = bytes == ssize_t{sizeof message} && (header.msg_flags & MSG_TRUNC) == 0 &&
                       came.user == getuid();
    if (!whole || message.secret != address_.secret || message.generation != world.generation ||
        message.rank < 0 || message.rank >= world.size() || message.rank == world.rank) {
      continue;  // from a foreign process
    }
    // The message had a descriptor, so this process had no room for it.
    if (!came.descriptor.valid()) return failure(EMFILE);
    taken[static_cast<size_t>(message.rank)] = std::move(came.descriptor);
  }
}

Result<std::vector<base::ForkPrivateFd>> DescriptorExchange::run(const World& world,
                                                                 std::span<const Address> all,
                                                                 int own, const Pause& pause) {
  std::vector<base::ForkPrivateFd> taken(all.size());
  std::vector<bool> told(all.size());
  told[static_cast<size_t>(world.rank)] = true;
  while (true) {
    int hindrance = 0;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (!told[rank]) told[rank] = send(world, all[rank], own, hindrance);
    }
    FFDL_RETURN_IF_ERROR(take(world, taken));
    std::optional<size_t> missing;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const bool is_own = rank == static_cast<size_t>(world.rank);
      if (!is_own && (!told[rank] || !taken[rank].valid())) missing = rank;
    }
    if (!missing) return taken;
    const Status status = pause();
    if (status.code() == StatusCode::kTimeout) {
      return base::make_error(
          StatusCode::kTimeout,
          "{} at rank {}: by the deadline rank {} '{}' had {}{}; wait longer, or find out what it "
          "does",
          kExchange, world.rank, *missing, world.members[*missing].id,
          told[*missing] ? "sent no descriptor" : "received no descriptor",
          hindrance != 0 ? ": " + base::errno_text(hindrance) : "");
    }
    FFDL_RETURN_IF_ERROR(status);
  }
}

}  // namespace ffdl::comm
