#include "comm/introduction.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "comm/links.h"

namespace ffdl::comm {
namespace {

using base::invalid_argument;

constexpr std::array<std::string_view, 7> kNames = {"auto",  "shm",  "gloo",      "hierarchical",
                                                    "local", "nccl", "device_shm"};

// What it cannot do without.
bool needs_one_host(Backend backend) {
  return backend == Backend::kShm || backend == Backend::kDeviceShm;
}

std::string_view name_of(Backend backend) { return kNames[static_cast<size_t>(backend)]; }

std::string id_of(const World& world, size_t rank) {
  return fmt::format("rank {} '{}'", rank, world.members[rank].id);
}

}  // namespace

std::string to_record(const Introduction& introduction) {
  return fmt::format("{} {} {} {} {}", name_of(introduction.backend),
                     introduction.loopback ? "loopback" : "address", introduction.host.memory,
                     introduction.host.network, introduction.host.processes);
}

Result<Introduction> from_record(std::string_view record) {
  const bool ends_in_a_space = record.ends_with(' ');
  std::array<std::string_view, 5> words;
  for (std::string_view& word : words) {
    word = record.substr(0, record.find(' '));
    record.remove_prefix(std::min(record.size(), word.size() + 1));
  }
  const auto* const name = std::ranges::find(kNames, words[0]);
  const bool known = words[1] == "loopback" || words[1] == "address";
  if (name == kNames.end() || !known || ends_in_a_space || words[4].empty() || !record.empty()) {
    return base::make_error(StatusCode::kCorrupt,
                            "connect: a member tells '{}', which is no introduction; does it run "
                            "another version of ffdl",
                            words[0]);
  }
  return Introduction{
      .backend = static_cast<Backend>(name - kNames.begin()),
      .loopback = words[1] == "loopback",
      .host = {std::string(words[2]), std::string(words[3]), std::string(words[4])}};
}

std::vector<int> hosts_of(const std::vector<Introduction>& members) {
  std::vector<int> hosts;
  std::vector<std::string_view> seen;
  for (const Introduction& member : members) {
    const auto host = std::ranges::find(seen, member.host.memory);
    hosts.push_back(static_cast<int>(host - seen.begin()));
    if (host == seen.end()) seen.push_back(member.host.memory);
  }
  return hosts;
}

bool by_memory(Backend backend, bool one_host) {
  const bool finds_out = backend == Backend::kAuto || backend == Backend::kNccl;
  return needs_one_host(backend) || (finds_out && one_host);
}

Status check_members(const World& world, const std::vector<Introduction>& members) {
  const Introduction& first = members.front();
  for (size_t rank = 1; rank < members.size(); ++rank) {
    if (members[rank].backend == first.backend) continue;
    return invalid_argument(
        "connect generation {}: {} wants backend {}, {} wants {}; give all members the same",
        world.generation, id_of(world, 0), name_of(first.backend), id_of(world, rank),
        name_of(members[rank].backend));
  }
  const auto elsewhere = [&](const std::string HostIdentity::* kind) {
    return std::ranges::find_if(
        members, [&](const Introduction& member) { return member.host.*kind != first.host.*kind; });
  };
  const auto no_memory = elsewhere(&HostIdentity::memory);
  const bool one_host = no_memory == members.end();
  if (needs_one_host(first.backend) && !one_host) {
    const auto other = static_cast<size_t>(no_memory - members.begin());
    return invalid_argument("connect generation {}: {} and {} share no memory; use the backend {}",
                            world.generation, id_of(world, 0), id_of(world, other),
                            first.backend == Backend::kShm ? "hierarchical, or auto" : "nccl");
  }
  const auto no_network = elsewhere(&HostIdentity::network);
  if (first.backend == Backend::kDeviceShm && no_network != members.end()) {
    return invalid_argument(
        "connect generation {}: {} and {} are in different network namespaces, between which GPUs' "
        "memory is not passed on; give their containers one, or use the backend nccl",
        world.generation, id_of(world, 0),
        id_of(world, static_cast<size_t>(no_network - members.begin())));
  }
  if (by_memory(first.backend, one_host)) return {};
  FFDL_RETURN_IF_ERROR(have_links());
  const auto local = std::ranges::find_if(members, &Introduction::loopback);
  if (no_network == members.end() || local == members.end()) return {};
  return invalid_argument(
      "connect generation {}: {} has given no address, and the members are on several hosts; set "
      "CommunicatorOptions::address to one that they reach",
      world.generation, id_of(world, static_cast<size_t>(local - members.begin())));
}

}  // namespace ffdl::comm
