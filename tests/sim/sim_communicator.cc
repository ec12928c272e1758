#include "sim/sim_communicator.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::sim {

using namespace std::chrono_literals;

namespace {

std::vector<std::byte> bytes_of(std::span<const Buffer> buffers) {
  std::vector<std::byte> bytes;
  for (const Buffer& buffer : buffers) {
    const auto* data = static_cast<const std::byte*>(buffer.data);
    bytes.insert(bytes.end(), data, data + buffer.count * element_bytes(buffer.dtype));
  }
  return bytes;
}

void put(std::span<const std::byte> bytes, std::span<const Buffer> buffers) {
  for (const Buffer& buffer : buffers) {
    const size_t count = buffer.count * element_bytes(buffer.dtype);
    if (count > 0) std::memcpy(buffer.data, bytes.data(), count);
    bytes = bytes.subspan(count);
  }
}

// Returns the sum or mean of doubles, in the order of ranks.
std::vector<std::byte> sum_of(const std::vector<const Exchange::Given*>& given, ReduceOp op) {
  std::vector<std::byte> sum = given.front()->bytes;
  const size_t ranks = given.size();
  for (size_t at = 0; at < sum.size(); at += sizeof(double)) {
    double total = 0;
    for (const Exchange::Given* one : given) {
      double value = 0;
      std::memcpy(&value, one->bytes.data() + at, sizeof value);
      total += value;
    }
    if (op == ReduceOp::kMean) total /= static_cast<double>(ranks);
    std::memcpy(sum.data() + at, &total, sizeof total);
  }
  return sum;
}

}  // namespace

// --- Exchange ------------------------------------------------------------------------------------

void Exchange::wake() {
  for (const auto& event : waiting_) event->set();
}

void Exchange::arrive(uint64_t generation, const Member& member, const SimNode& node) {
  arrived_[generation][{member.id, member.incarnation}] = &node;
  wake();
}

bool Exchange::have_all_come(const World& world) const {
  const auto found = arrived_.find(world.generation);
  return found != arrived_.end() &&
         std::all_of(world.members.begin(), world.members.end(), [&](const Member& member) {
           return found->second.contains({member.id, member.incarnation});
         });
}

std::vector<int> Exchange::unreached(const World& world) const {
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string& other = world.members[static_cast<size_t>(rank)].id;
    if (is_cut(other, self) || is_cut(self, other)) ranks.push_back(rank);
  }
  return ranks;
}

bool Exchange::is_silent(const Link& link) const {
  return is_cut(link.first, link.second) &&
         runtime_.elapsed() >= cuts_.at(link).since + base::kPeerSilentMax;
}

bool Exchange::is_silent(const World& world, int rank) const {
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  const std::string& other = world.members[static_cast<size_t>(rank)].id;
  return is_silent({other, self}) || is_silent({self, other});
}

void Exchange::cut(const std::string& from, const std::string& to, Duration until) {
  Cut& cut = cuts_[{from, to}];
  if (cut.until <= runtime_.elapsed()) cut.since = runtime_.elapsed();
  cut.until = std::max(cut.until, until);
}

bool Exchange::is_cut(const std::string& from, const std::string& to) const {
  const auto found = cuts_.find({from, to});
  return found != cuts_.end() && runtime_.elapsed() < found->second.until;
}

void Exchange::die(const std::string& id) {
  for (const auto& [link, cut] : cuts_) {
    if (link.first != id || !is_cut(link.first, link.second)) continue;
    for (const auto& [generation, lives] : arrived_) {
      for (const auto& [life, node] : lives) {
        if (life.first == id) lost_deaths_.try_emplace({node, link.second}, cut.since);
      }
    }
  }
}

bool Exchange::is_dead(uint64_t generation, const Member& member) const {
  return arrived_.at(generation).at({member.id, member.incarnation})->is_killed();
}

void Exchange::give(const Place& place, int rank, Given given) {
  given.at = runtime_.elapsed();
  given_[place][rank] = std::move(given);
  wake();
}

const Exchange::Given* Exchange::find(const Place& place, int rank) const {
  const auto found = given_.find(place);
  if (found == given_.end()) return nullptr;
  const auto one = found->second.find(rank);
  return one == found->second.end() ? nullptr : &one->second;
}

void Exchange::miss(const World& world, const std::vector<int>& ranks) {
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  for (const int rank : ranks) ++missed_[{self, world.members[static_cast<size_t>(rank)].id}];
}

void Exchange::connected(const World& world) {
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  for (const Member& member : world.members) missed_.erase({self, member.id});
}

uint64_t Exchange::worlds_missed(const std::string& one, const std::string& other) const {
  const auto count = [&](const Link& link) {
    const auto found = missed_.find(link);
    return found == missed_.end() ? 0 : found->second;
  };
  return std::max(count({one, other}), count({other, one}));
}

void Exchange::end(const World& world) {
  if (!ended_.emplace(world.generation, world.rank).second) return;
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  for (const auto& [link, cut] : cuts_) {
    if (link.first == self && is_cut(link.first, link.second)) {
      lost_ends_.try_emplace({world.generation, link}, cut.since);
    }
  }
  wake();
}

std::optional<Duration> Exchange::lost_since(const World& world, int rank) const {
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  const Member& other = world.members[static_cast<size_t>(rank)];
  const auto end = lost_ends_.find({world.generation, {other.id, self}});
  if (end != lost_ends_.end()) return end->second;
  const SimNode* node = arrived_.at(world.generation).at({other.id, other.incarnation});
  const auto death = lost_deaths_.find({node, self});
  if (death != lost_deaths_.end()) return death->second;
  return std::nullopt;
}

const Exchange::Given* Exchange::receive(const World& world, const Place& place, int rank) const {
  const Given* given = find(place, rank);
  if (given == nullptr || rank == world.rank) return given;
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  const std::string& other = world.members[static_cast<size_t>(rank)].id;
  if (is_cut(other, self) && given->at >= cuts_.at({other, self}).since) return nullptr;
  const auto lost = lost_since(world, rank);
  return lost && given->at >= *lost ? nullptr : given;
}

bool Exchange::sees_end(const World& world, int rank) const {
  const std::string& self = world.members[static_cast<size_t>(world.rank)].id;
  const Member& other = world.members[static_cast<size_t>(rank)];
  if (is_cut(other.id, self) || lost_since(world, rank)) return false;
  return ended_.contains({world.generation, rank}) || is_dead(world.generation, other);
}

// --- SimCommunicator -----------------------------------------------------------------------------

Result<std::unique_ptr<Communicator>> SimCommunicator::connect(const World& world, Time deadline,
                                                               const ConnectWatch& watch,
                                                               Exchange& exchange,
                                                               SimRuntime& runtime, SimNode& node,
                                                               Hooks hooks) {
  exchange.arrive(world.generation, world.members[static_cast<size_t>(world.rank)], node);
  const std::shared_ptr<Event> event = node.make_event();
  exchange.add(event);
  Status outcome;
  Time all_came = kNoDeadline;
  while (outcome.ok()) {
    const bool have_all_come = exchange.have_all_come(world);
    const std::vector<int> unreached = exchange.unreached(world);
    if (have_all_come && unreached.empty()) break;
    if (have_all_come) all_came = std::min(all_came, node.now());
    if (all_came != kNoDeadline && node.now() >= all_came + base::kLinkSilenceMax) {
      for (const int rank : unreached) watch.unreached(rank);
      exchange.miss(world, unreached);
      outcome = base::make_error(StatusCode::kTimeout, "connect: links are cut");
      break;
    }
    event->reset();
    event->wait_until(node.now() + 50ms);
    outcome = watch.interrupt_check();
    if (node.is_killed()) outcome = base::make_error(StatusCode::kCancelled, "killed");
    if (node.now() >= deadline) outcome = base::make_error(StatusCode::kTimeout, "connect");
  }
  exchange.remove(event);
  if (!outcome.ok()) {
    exchange.end(world);
    return outcome;
  }
  exchange.connected(world);
  runtime.sleep(runtime.up_to(10ms));
  return std::unique_ptr<Communicator>(
      std::make_unique<SimCommunicator>(world, exchange, runtime, node, std::move(hooks)));
}

void SimCommunicator::abort(Status why) {
  // NextWorldConnector watches the world in this task. It also ends all worlds with the life, for
  // another reason.
  if (hooks_.waits_in_old_world && runtime_.current()->name == "ffdl-world" &&
      why.message() == "the world changes") {
    return;
  }
  if (failed_.ok()) failed_ = std::move(why);
  exchange_.end(world_);
}

Status SimCommunicator::run(const Operation& operation, Time deadline) {
  Status outcome = attempt(operation, deadline);
  if (!outcome.ok() && failed_.ok()) abort(outcome);
  if (operation.kind == Collective::kAllGather) sums_ = 0;
  if (operation.kind != Collective::kAllReduce) return outcome;
  if (hooks_.is_first_bucket_all && sums_ > 0) return {};
  if (outcome.ok()) ++sums_;
  return outcome;
}

Status SimCommunicator::attempt(const Operation& operation, Time deadline) {
  if (node_.is_killed()) return base::make_error(StatusCode::kCancelled, "killed");
  FFDL_RETURN_IF_ERROR(Status(failed_));
  const bool is_pair = operation.kind == Collective::kSend || operation.kind == Collective::kRecv;
  FFDL_RETURN_IF_ERROR(is_pair ? one_to_one(operation, deadline) : all_to_all(operation, deadline));
  // An abort may arrive between the last arrival and the return at some members.
  runtime_.sleep(runtime_.up_to(5ms));
  if (node_.is_killed()) return base::make_error(StatusCode::kCancelled, "killed");
  FFDL_RETURN_IF_ERROR(Status(failed_));
  if (!runtime_.chance(hooks_.fail)) return {};
  return base::make_error(StatusCode::kTimeout, "generation {}: too late", world_.generation);
}

Status SimCommunicator::wait_for(const Exchange::Place& place, const std::vector<int>& ranks,
                                 Time deadline) {
  const std::shared_ptr<Event> event = node_.make_event();
  exchange_.add(event);
  Status outcome;
  while (outcome.ok()) {
    event->reset();
    bool is_whole = true;
    for (const int rank : ranks) {
      if (exchange_.receive(world_, place, rank) != nullptr) continue;
      is_whole = false;
      if (exchange_.sees_end(world_, rank)) {
        outcome = base::make_error(StatusCode::kPeerLost, "'{}' is gone",
                                   world_.members[static_cast<size_t>(rank)].id);
      }
      if (exchange_.is_silent(world_, rank)) {
        outcome = base::make_error(StatusCode::kPeerLost, "nothing is heard of '{}'",
                                   world_.members[static_cast<size_t>(rank)].id);
      }
    }
    if (is_whole || !outcome.ok()) break;
    event->wait_until(node_.now() + 20ms);
    if (node_.now() >= deadline) outcome = base::make_error(StatusCode::kTimeout, "too late");
    if (!failed_.ok()) outcome = failed_;
    if (node_.is_killed()) outcome = base::make_error(StatusCode::kCancelled, "killed");
  }
  exchange_.remove(event);
  return outcome;
}

Status SimCommunicator::all_to_all(const Operation& operation, Time deadline) {
  hooks_.act();
  const Exchange::Place place = {world_.generation, operations_++};
  auto bytes = bytes_of(operation.in.empty() ? operation.out : operation.in);
  hooks_.tamper(bytes);
  exchange_.give(place, world_.rank, {std::move(bytes), hooks_.state()});
  std::vector<int> ranks;
  for (int rank = 0; rank < world_.size(); ++rank) ranks.push_back(rank);
  FFDL_RETURN_IF_ERROR(wait_for(place, ranks, deadline));
  std::vector<const Exchange::Given*> given;
  std::vector<uint64_t> states;
  std::vector<std::byte> all;
  for (const int rank : ranks) {
    given.push_back(exchange_.find(place, rank));
    states.push_back(given.back()->state);
    all.insert(all.end(), given.back()->bytes.begin(), given.back()->bytes.end());
  }
  if (operation.kind == Collective::kAllGather) {
    put(all, operation.out);
    return {};
  }
  hooks_.sum(states);
  if (operation.kind == Collective::kAllReduce) {
    put(sum_of(given, operation.reduce), operation.out);
  } else if (operation.kind == Collective::kReduceScatter) {
    put(block_of(sum_of(given, operation.reduce)), operation.out);
  } else if (operation.kind == Collective::kAllToAll) {
    std::vector<std::byte> mine;
    for (const Exchange::Given* one : given) {
      const auto block = block_of(one->bytes);
      mine.insert(mine.end(), block.begin(), block.end());
    }
    put(mine, operation.out);
  } else {
    return base::make_error(StatusCode::kUnimplemented, "not in this simulation");
  }
  return {};
}

// Returns the block of this rank, of as many equal blocks as there are ranks.
std::span<const std::byte> SimCommunicator::block_of(std::span<const std::byte> bytes) const {
  const size_t block = bytes.size() / world_.members.size();
  return bytes.subspan(block * static_cast<size_t>(world_.rank), block);
}

// Sends or receives. OK at the sender means that the other rank has received the data.
Status SimCommunicator::one_to_one(const Operation& operation, Time deadline) {
  const bool sends = operation.kind == Collective::kSend;
  const int from = sends ? world_.rank : operation.peer;
  const int to = sends ? operation.peer : world_.rank;
  const Exchange::Place place = {world_.generation, messages_[{from, to}]++, from, to};
  if (sends) {
    exchange_.give(place, from, {bytes_of(operation.in), 0});
    return wait_for(place, {to}, deadline);
  }
  FFDL_RETURN_IF_ERROR(wait_for(place, {from}, deadline));
  put(exchange_.find(place, from)->bytes, operation.out);
  exchange_.give(place, to, {});
  return {};
}

}  // namespace ffdl::sim
