#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/rows.h"
#include "benchmarks/rescale/store_folder.h"
#include "benchmarks/rescale/trainer.h"
#include "ffdl/membership.h"

namespace ffdl::bench {
namespace {

constexpr Duration kPatience = std::chrono::seconds(50);  // below that of Resident::ask()

// Returns the time, which can be compared among processes of one host.
std::string time_now() {
  return std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
}

// One member of a job, and its answers to requests.
class Player {
 public:
  Player(Store& store, Membership& membership) : store_(store), membership_(membership) {}

  Result<std::string> answer(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "world") {
      size_t members = 0;
      words >> members;
      return wait_world(members);
    }
    if (word == "activate") {
      FFDL_RETURN_IF_ERROR(membership_.activate(generation_, deadline_in(kPatience)));
      FFDL_RETURN_IF_ERROR(membership_.wait_active(generation_, deadline_in(kPatience)));
      return time_now();
    }
    if (word == "put") {
      FFDL_RETURN_IF_ERROR(store_.put("probe/" + membership_.self().id, "1").status());
      return time_now();
    }
    if (word == "leads") return std::string(membership_.is_leader() ? "1" : "0");
    if (word == "generation") return std::to_string(membership_.world().generation);
    return Status(StatusCode::kInvalidArgument, fmt::format("'{}': no such question", line));
  }

 private:
  // Observes every world until one has `members` members. Earlier worlds become active too, so that
  // the leader forms the next. A world may be without this member, which has no part in it then.
  Result<std::string> wait_world(size_t members) {
    while (true) {
      FFDL_ASSIGN_OR_RETURN(const World world,
                            membership_.wait_world_after(generation_, deadline_in(kPatience)));
      generation_ = world.generation;
      if (world.rank < 0) continue;
      if (world.members.size() == members) return fmt::format("{} {}", time_now(), generation_);
      const Status active = membership_.activate(generation_, deadline_in(kPatience));
      if (!active.ok() && active.code() != StatusCode::kWorldChanged) return active;
    }
  }

  Store& store_;
  Membership& membership_;
  uint64_t generation_ = 0;
};

// Arguments: FOLDER ID LEASE_MS
Status play_member(const std::vector<std::string>& arguments) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("tcp://" + arguments[0], system_runtime()));
  MembershipOptions options;
  options.lease = std::chrono::milliseconds(std::stoll(arguments[2]));
  FFDL_ASSIGN_OR_RETURN(const auto membership, Membership::join(*store, system_runtime(),
                                                                {arguments[1], 0, ""}, options));
  Player player(*store, *membership);
  answer("ready");
  for (std::string line; std::getline(std::cin, line);) {
    FFDL_ASSIGN_OR_RETURN(const std::string answer, player.answer(line));
    bench::answer(answer);
  }
  return {};
}

// Argument: FOLDER
Status play_server(const std::vector<std::string>& arguments) {
  return play_store_server(arguments[0]);
}

// Argument: PORT
Status play_peer(const std::vector<std::string>& arguments) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(arguments[0])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  if (connection < 0 || connect(connection, any, sizeof address) != 0) {
    return {StatusCode::kUnavailable,
            fmt::format("connect to port {}: {}", arguments[0], std::strerror(errno))};
  }
  wait_for_the_end();
  close(connection);
  return {};
}

}  // namespace

int play_role(const std::vector<std::string>& arguments) {
  struct Role {
    const char* name;
    size_t arguments;
    Status (*play)(const std::vector<std::string>&);
  };
  const Role roles[] = {{"member", 3, play_member},
                        {"server", 1, play_server},
                        {"peer", 1, play_peer},
                        {"trainer", 4, play_trainer},
                        {"twin", 5, play_twin}};
  for (const Role& role : roles) {
    if (arguments.size() != role.arguments + 1 || arguments[0] != role.name) continue;
    const Status status = role.play({arguments.begin() + 1, arguments.end()});
    if (!status.ok()) fmt::print(stderr, "{}: {}\n", role.name, status.to_string());
    return status.ok() ? 0 : 1;
  }
  fmt::print(stderr, "play '{}': no such role; this option is for bench_rescale itself\n",
             arguments.empty() ? "" : arguments[0]);
  return 1;
}

}  // namespace ffdl::bench
