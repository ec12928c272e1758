#include "comm/api/introduction.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/names.h"
#include "comm/network/links.h"
#include "comm/operation/world_key.h"

namespace ffdl::comm {
namespace {

using base::invalid_argument;

constexpr std::array<std::string_view, 8> kNames = {"auto",         "shm",   "tcp",  "gloo",
                                                    "hierarchical", "local", "nccl", "device_shm"};

bool needs_one_host(Backend backend) {
  return backend == Backend::kShm || backend == Backend::kDeviceShm;
}

std::string_view backend_name(Backend backend) { return kNames[static_cast<size_t>(backend)]; }

std::string id_of(const World& world, size_t rank) {
  return fmt::format("rank {} '{}'", rank, world.members[rank].id);
}

}  // namespace

std::string to_record(const Introduction& introduction) {
  return fmt::format("{} {} {} {} {} {} {}", backend_name(introduction.backend),
                     introduction.loopback ? "loopback" : "address",
                     introduction.tls ? "tls" : "plain", introduction.host.memory,
                     introduction.host.network, introduction.host.processes, introduction.job);
}

Result<Introduction> from_record(std::string_view record) {
  std::array<std::string_view, 6> words;
  bool whole = true;
  for (std::string_view& word : words) {
    const size_t end = record.find(' ');
    whole = whole && end != std::string_view::npos && end > 0;
    word = record.substr(0, end);
    record.remove_prefix(std::min(record.size(), word.size() + 1));
  }
  whole = whole && (record.empty() || base::is_name(record));  // the rest is the job
  const auto* const name = std::ranges::find(kNames, words[0]);
  const bool known = (words[1] == "loopback" || words[1] == "address") &&
                     (words[2] == "tls" || words[2] == "plain");
  if (name == kNames.end() || !known || !whole) {
    return base::make_error(StatusCode::kCorrupt,
                            "connect: a member sent '{}', which is not an introduction; does it "
                            "run another version of ffdl",
                            words[0]);
  }
  return Introduction{.backend = static_cast<Backend>(name - kNames.begin()),
                      .loopback = words[1] == "loopback",
                      .tls = words[2] == "tls",
                      .host = {std::string(words[3]), std::string(words[4]), std::string(words[5])},
                      .job = std::string(record)};
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

bool may_share_memory(Backend backend) {
  return backend != Backend::kTcp && backend != Backend::kGloo;
}

Status check_agreement(const World& world, const std::vector<Introduction>& members) {
  const auto stranger = std::ranges::find_if(
      members, [&](const Introduction& member) { return member.job != world.job; });
  if (stranger != members.end()) {
    return base::make_error(
        StatusCode::kCorrupt, "connect {}: {} is of job '{}'; has something written to the store",
        name_of(world), id_of(world, static_cast<size_t>(stranger - members.begin())),
        stranger->job);
  }
  const Introduction& first = members.front();
  for (size_t rank = 1; rank < members.size(); ++rank) {
    if (members[rank].backend == first.backend) continue;
    return invalid_argument(
        "connect generation {}: {} wants backend {}, {} wants {}; set the same backend at all "
        "members",
        world.generation, id_of(world, 0), backend_name(first.backend), id_of(world, rank),
        backend_name(members[rank].backend));
  }
  const auto other_tls = std::ranges::find_if(
      members, [&](const Introduction& member) { return member.tls != first.tls; });
  if (other_tls != members.end()) {
    const std::string other = id_of(world, static_cast<size_t>(other_tls - members.begin()));
    return invalid_argument(
        "connect generation {}: {} encrypts its connections, {} does not; set FFDL_TLS=1 or "
        "CommunicatorOptions::tls at all members, or at none",
        world.generation, first.tls ? id_of(world, 0) : other, first.tls ? other : id_of(world, 0));
  }
  return {};
}

Status check_reach(const World& world, const std::vector<Introduction>& members) {
  const Introduction& first = members.front();
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
        "connect generation {}: {} and {} are in different network namespaces, and GPU memory can "
        "be shared only within one; run their containers in one network namespace, or use the "
        "backend nccl",
        world.generation, id_of(world, 0),
        id_of(world, static_cast<size_t>(no_network - members.begin())));
  }
  if (by_memory(first.backend, one_host)) return {};
  if (first.tls && (first.backend == Backend::kGloo || first.backend == Backend::kNccl)) {
    return invalid_argument(
        "connect generation {}: the backend {} does not encrypt its connections between hosts; use "
        "the backend tcp or auto, or no TLS",
        world.generation, backend_name(first.backend));
  }
  if (first.backend == Backend::kGloo) FFDL_RETURN_IF_ERROR(have_gloo());
  const auto local = std::ranges::find_if(members, &Introduction::loopback);
  if (no_network == members.end() || local == members.end()) return {};
  return invalid_argument(
      "connect generation {}: {} has no address that other hosts can reach, but the members are on "
      "several hosts; set CommunicatorOptions::address to an address that they can reach",
      world.generation, id_of(world, static_cast<size_t>(local - members.begin())));
}

}  // namespace ffdl::comm
