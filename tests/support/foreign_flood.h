#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "support/other_user.h"

namespace ffdl::testing {

// Idle connections of another user's process to a port of this host, for the lifetime of this
// object. Needs root: see FFDL_SKIP_UNLESS_OTHER_USER.
class ForeignFlood {
 public:
  ForeignFlood(uint16_t port, size_t connections) {
    if (pipe2(asks_.data(), O_CLOEXEC) != 0 || pipe2(says_.data(), O_CLOEXEC) != 0) return;
    flood_ = std::thread([this, port, connections] {
      as_other_user([&] { return flood(port, connections); });
      close(says_[1]);  // ends the wait for a report
    });
    is_there_ = heard() == connections;
  }
  // Ends the process by a byte: processes forked later may hold the pipe open.
  ~ForeignFlood() {
    static_cast<void>(write(asks_[1], "e", 1));
    close(asks_[1]);
    if (flood_.joinable()) flood_.join();
    for (const int fd : {asks_[0], says_[0]}) close(fd);
  }
  ForeignFlood(const ForeignFlood&) = delete;
  ForeignFlood& operator=(const ForeignFlood&) = delete;

  // Returns false if it could not make so many connections, such as for lack of descriptors.
  bool is_there() const { return is_there_; }
  // Returns the number of connections that have not been closed.
  size_t still_open() {
    const char byte = 'n';
    return write(asks_[1], &byte, 1) == 1 ? heard() : 0;
  }

 private:
  size_t heard() {
    size_t number = 0;
    return read(says_[0], &number, sizeof number) == ssize_t{sizeof number} ? number : 0;
  }
  void say(size_t number) const {
    static_cast<void>(write(says_[1], &number, sizeof number));
  }
  static bool is_open(int fd) {
    char byte = 0;
    const ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && errno == EAGAIN);
  }
  // Runs in the other process, which inherits the limit of descriptors and then raises it.
  int flood(uint16_t port, size_t connections) const {
    close(asks_[1]);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::vector<int> made;
    while (made.size() < connections) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) break;
      made.push_back(fd);
    }
    say(made.size());
    char byte = 0;
    while (read(asks_[0], &byte, 1) == 1 && byte != 'e') {
      size_t open = 0;
      for (const int fd : made) open += is_open(fd) ? 1 : 0;
      say(open);
    }
    return 0;
  }

  std::array<int, 2> asks_ = {-1, -1};
  std::array<int, 2> says_ = {-1, -1};
  std::thread flood_;
  bool is_there_ = false;
};

}  // namespace ffdl::testing
