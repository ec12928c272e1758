#include "launch/etcd_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own_files.h"
#include "net/certificate_authority.h"
#include "net/certificate_files.h"
#include "net/challenge.h"
#include "net/local_address.h"
#include "wire/json_record.h"

namespace ffdl::launch {
namespace {

using wire::Json;
using wire::RecordReader;

constexpr size_t kMembersMax = 3;
constexpr Duration kRetry = std::chrono::milliseconds(200);

std::string etcd_name(size_t member) { return fmt::format("etcd-{}", member); }

bool has_key(const std::vector<Entry>& entries, const std::string& key) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const Entry& entry) { return entry.key == key; });
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

EtcdCluster::EtcdCluster(Store& rendezvous, const EtcdClusterOptions& options)
    : rendezvous_(rendezvous),
      options_(options),
      prefix_(fmt::format("ffdl/{}/etcd/", options.job)) {}

EtcdCluster::~EtcdCluster() {
  server_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(options_.folder, ignored);
}

Result<std::unique_ptr<EtcdCluster>> EtcdCluster::join(Store& rendezvous,
                                                       const EtcdClusterOptions& options) {
  if (options.members < 1 || options.members > static_cast<int>(kMembersMax)) {
    return base::invalid_argument("start the etcd of job '{}': {} members; use 1 to {}",
                                  options.job, options.members, kMembersMax);
  }
  std::error_code ignored;
  std::filesystem::remove_all(options.folder, ignored);  // of a run that was killed
  FFDL_RETURN_IF_ERROR(base::make_own_folder(options.folder).status());
  auto made = std::unique_ptr<EtcdCluster>(new EtcdCluster(rendezvous, options));
  FFDL_RETURN_IF_ERROR(made->look_for_program());
  FFDL_RETURN_IF_ERROR(made->choose_address());
  if (options.founds) FFDL_RETURN_IF_ERROR(made->forget_former());
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const Record record, made->meet());
    FFDL_RETURN_IF_ERROR(made->make_certificates(record));
    FFDL_RETURN_IF_ERROR(made->start(record));
    const Status opened = made->open(options.start_patience, &record);
    if (opened.ok()) return made;
    if (!made->is_replaced(record)) return made->not_started(opened);
  }
}

Status EtcdCluster::not_started(const Status& why) const {
  const std::string line = server_ == nullptr ? "" : server_->last_line();
  return Status(why).with_context(fmt::format("start the etcd of job '{}'{}{}", options_.job,
                                              line.empty() ? "" : ", which logged ", line));
}

// --- records -------------------------------------------------------------------------------------

std::string EtcdCluster::encode(const Member& member) {
  return wire::dump({{"client", member.client}, {"peer", member.peer}});
}

std::string EtcdCluster::encode(const Record& record) {
  Json members = Json::array();
  for (const Member& member : record.members) {
    members.push_back({{"client", member.client}, {"peer", member.peer}});
  }
  return wire::dump({{"token", record.token}, {"members", members}});
}

Result<EtcdCluster::Member> EtcdCluster::parse_member(std::string_view text) {
  const Json json = wire::parse_json(text);
  RecordReader fields(json);
  Member member{fields.text("client"), fields.text("peer")};
  FFDL_RETURN_IF_ERROR(fields.outcome("the record of an etcd"));
  return member;
}

Result<EtcdCluster::Record> EtcdCluster::parse_record(std::string_view text) {
  const Json json = wire::parse_json(text);
  RecordReader fields(json);
  Record record{.token = fields.text("token")};
  fields.list("members", kMembersMax, [&](RecordReader& member) {
    record.members.push_back({member.text("client"), member.text("peer")});
  });
  if (record.members.empty()) fields.fail("members");
  FFDL_RETURN_IF_ERROR(fields.outcome("the record of the etcd of a job"));
  return record;
}

// --- the meeting ---------------------------------------------------------------------------------

Status EtcdCluster::look_for_program() {
  const Status found = EtcdServer::find(options_.program, options_.folder);
  if (found.code() != StatusCode::kNotFound || options_.founds) return found;
  may_serve_ = false;
  base::log_warning("{}; this node uses the etcds of other nodes", found.message());
  return {};
}

Status EtcdCluster::choose_address() {
  std::string host = rendezvous_.local_address();
  if (!options_.interface.empty()) {
    FFDL_ASSIGN_OR_RETURN(host, net::address_of_interface(options_.interface));
  }
  if (host.empty()) host = "127.0.0.1";
  constexpr std::string_view kAdvice = "give another --interface";
  FFDL_ASSIGN_OR_RETURN(client_port_, ReservedPort::at(host, kAdvice));
  FFDL_ASSIGN_OR_RETURN(peer_port_, ReservedPort::at(host, kAdvice));
  own_ = {client_port_->address().text(), peer_port_->address().text()};
  return {};
}

// Removes the record of a run that was killed. Its etcd has ended with it, unless this is node 0
// that comes again while others train on.
Status EtcdCluster::forget_former() {
  const std::string key = prefix_ + "cluster";
  const auto entry = rendezvous_.get(key);
  if (entry.status().code() == StatusCode::kNotFound) return {};
  FFDL_RETURN_IF_ERROR(entry.status());
  FFDL_ASSIGN_OR_RETURN(const Record record, parse_record(entry->value));
  FFDL_RETURN_IF_ERROR(make_certificates(record));
  if (open(base::kEtcdConnectMax * static_cast<int64_t>(kMembersMax), nullptr).ok()) return {};
  return rendezvous_.remove(key);
}

// Returns whether node 0 has removed that record, or written another.
bool EtcdCluster::is_replaced(const Record& record) const {
  const auto entry = rendezvous_.get(prefix_ + "cluster");
  if (!entry.ok()) return entry.status().code() == StatusCode::kNotFound;
  return entry->value != encode(record);
}

// Takes a place if one is free, and waits for the record of the cluster, which the founder writes
// once all places are taken. A place is held by a lease, so the place of a node that dies before is
// free again.
Result<EtcdCluster::Record> EtcdCluster::meet() {
  const Time deadline = system_runtime().now() + options_.patience;
  while (true) {
    const Time now = system_runtime().now();
    FFDL_ASSIGN_OR_RETURN(const Revision seen, rendezvous_.wait_change(prefix_, 0, kNoDeadline));
    FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, rendezvous_.list(prefix_));
    for (const Entry& entry : entries) {
      if (entry.key == prefix_ + "cluster") return parse_record(entry.value);
    }
    FFDL_RETURN_IF_ERROR(take_place(entries));
    if (options_.founds) FFDL_RETURN_IF_ERROR(found(entries));
    if (now >= deadline) return Status(StatusCode::kTimeout, too_few(entries.size()));
    const auto changed = rendezvous_.wait_change(
        prefix_, seen, std::min<Time>(deadline, now + base::kNodeHeartbeat));
    if (!changed.ok() && changed.status().code() != StatusCode::kTimeout) return changed.status();
  }
}

std::string EtcdCluster::too_few(size_t places) const {
  return fmt::format(
      "start the etcd of job '{}': {} of {} nodes with the program etcd have started within {} s; "
      "start 'ffdl run' on the other nodes, with the same --job, --store and --rdzv-endpoint",
      options_.job, places, options_.members, options_.patience / std::chrono::seconds(1));
}

// Keeps this node's place, or takes the first one that is free. The first belongs to the founder.
Status EtcdCluster::take_place(const std::vector<Entry>& entries) {
  if (!may_serve_) return {};
  if (lease_ != kNoLease) {
    const Status kept = rendezvous_.keep_alive(lease_);
    if (kept.ok() && !place_.empty()) return {};
    if (!kept.ok() && kept.code() != StatusCode::kNotFound) return kept;
    place_.clear();
    if (!kept.ok()) lease_ = kNoLease;
  }
  const int first = options_.founds ? 0 : 1;
  const int end = options_.founds ? 1 : options_.members;
  for (int member = first; member < end; ++member) {
    const std::string key = fmt::format("{}members/{}", prefix_, member);
    if (has_key(entries, key)) continue;
    if (lease_ == kNoLease) {
      FFDL_ASSIGN_OR_RETURN(lease_, rendezvous_.grant_lease(base::kNodeLease));
    }
    const auto put = rendezvous_.compare_and_put(key, 0, encode(own_), lease_);
    if (put.status().code() == StatusCode::kConflict) continue;
    if (put.ok()) place_ = key;
    return put.status();
  }
  return {};
}

// Writes the record of the cluster if all places are taken.
Status EtcdCluster::found(const std::vector<Entry>& entries) {
  Record record;
  for (int member = 0; member < options_.members; ++member) {
    const std::string key = fmt::format("{}members/{}", prefix_, member);
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& one) { return one.key == key; });
    if (entry == entries.end()) return {};
    FFDL_ASSIGN_OR_RETURN(Member parsed, parse_member(entry->value));
    record.members.push_back(std::move(parsed));
  }
  FFDL_ASSIGN_OR_RETURN(const std::string nonce, net::make_nonce());
  record.token = hex_of(nonce);
  return rendezvous_.compare_and_put(prefix_ + "cluster", 0, encode(record)).status();
}

// --- the etcd ------------------------------------------------------------------------------------

// Writes this node's certificates, and makes the URL.
Status EtcdCluster::make_certificates(const Record& record) {
  const std::string purpose = fmt::format("etcd of job {} {}", options_.job, record.token);
  FFDL_ASSIGN_OR_RETURN(auto authority, net::CertificateAuthority::of(options_.secret, purpose));
  FFDL_ASSIGN_OR_RETURN(const net::Certificate client, authority.issue("client", {}));
  FFDL_ASSIGN_OR_RETURN(const net::Certificate server,
                        authority.issue("server", net::addresses_of_this_host()));
  const std::pair<const char*, const std::string&> files[] = {
      {net::kAuthorityFile, authority.certificate()},
      {net::kClientFile, client.certificate},
      {net::kClientKeyFile, client.key},
      {net::kServerFile, server.certificate},
      {net::kServerKeyFile, server.key}};
  for (const auto& [name, bytes] : files) {
    FFDL_RETURN_IF_ERROR(base::replace_own_file(options_.folder + "/" + name, bytes));
  }
  url_.clear();
  for (const Member& member : record.members) {
    url_ += (url_.empty() ? "etcd://" : ",") + member.client;
  }
  url_ += "?certificates=" + options_.folder;
  return {};
}

// Starts this node's etcd if it is one of the members.
Status EtcdCluster::start(const Record& record) {
  const auto own = std::find(record.members.begin(), record.members.end(), own_);
  if (own == record.members.end()) return {};
  std::string cluster;
  for (size_t member = 0; member < record.members.size(); ++member) {
    cluster += fmt::format("{}{}=https://{}", cluster.empty() ? "" : ",", etcd_name(member),
                           record.members[member].peer);
  }
  FFDL_ASSIGN_OR_RETURN(
      server_,
      EtcdServer::start({.program = options_.program,
                         .name = etcd_name(static_cast<size_t>(own - record.members.begin())),
                         .folder = options_.folder,
                         .client_address = own_.client,
                         .peer_address = own_.peer,
                         .cluster = std::move(cluster),
                         .token = record.token}));
  return {};
}

// Waits until the etcd answers, or until `record` is replaced, unless that is null.
Status EtcdCluster::open(Duration patience, const Record* record) const {
  const Time deadline = system_runtime().now() + patience;
  const auto never = system_runtime().make_event();
  while (true) {
    const Status opened =
        open_store(url_, system_runtime(),
                   {.operation_timeout = std::min<Duration>(patience, base::kNodeLease)})
            .status();
    const bool may_pass =
        opened.code() == StatusCode::kUnavailable || opened.code() == StatusCode::kTimeout;
    if (!may_pass || system_runtime().now() >= deadline) return opened;
    if (record != nullptr && is_replaced(*record)) return opened;
    never->wait_until(system_runtime().now() + kRetry);
  }
}

}  // namespace ffdl::launch
