#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "launch/etcd_server.h"
#include "launch/reserved_port.h"

namespace ffdl::launch {

struct EtcdClusterOptions {
  std::string job{};
  std::string secret{};     // of the rendezvous store, which the certificates are made from
  std::string folder{};     // for certificates, data and log; it must not exist
  std::string interface{};  // whose address the etcd gets; empty: the one that reaches the store
  int members = 1;          // etcds of the cluster
  bool founds = false;      // this node serves the rendezvous store: it has the first etcd
  std::string program = "etcd";  // searched in PATH; a node without it is a client
  // Longest time until all members have come, and that for the cluster to answer then.
  Duration patience = std::chrono::minutes(10);
  Duration start_patience = std::chrono::minutes(1);
};

// A node's part of the etcd of a job, which runs on the first nodes that come. They find each other
// by a rendezvous store, which nodes that have joined need no more. Each node computes the job's
// certificate authority from the secret, so no private key leaves a host.
// Threads: one at a time.
class FFDL_API EtcdCluster {
 public:
  // Only this call uses `rendezvous`. Takes a place among the members if one is free, waits until
  // all places are taken, and then until the etcd answers. Blocks: at most for the two times of the
  // options. Errors: kTimeout (too few nodes with an etcd have come), kUnavailable (the etcd does
  // not answer), kNotFound (the founder has no etcd installed), and those of Store.
  static Result<std::unique_ptr<EtcdCluster>> join(Store& rendezvous,
                                                   const EtcdClusterOptions& options);
  // Kills this node's etcd, and removes the folder.
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  // Returns the URL for open_store(), with the folder of the certificates.
  const std::string& url() const { return url_; }
  // Returns whether this node runs one of the etcds.
  bool runs_etcd() const { return server_ != nullptr; }

 private:
  // The addresses of one etcd, each as HOST:PORT.
  struct Member {
    std::string client{};
    std::string peer{};
    bool operator==(const Member&) const = default;
  };
  struct Record {
    std::string token{};
    std::vector<Member> members{};
  };
  EtcdCluster(Store& rendezvous, const EtcdClusterOptions& options);
  static std::string encode(const Member& member);
  static std::string encode(const Record& record);
  static Result<Member> parse_member(std::string_view text);
  static Result<Record> parse_record(std::string_view text);

  Status forget_former();
  Status look_for_program();
  Status choose_address();
  Result<Record> meet();
  Status take_place(const std::vector<Entry>& entries);
  Status found(const std::vector<Entry>& entries);
  std::string too_few(size_t places) const;
  Status make_certificates(const Record& record);
  Status start(const Record& record);
  Status open(Duration patience, const Record* record) const;
  bool is_replaced(const Record& record) const;
  Status not_started(const Status& why) const;

  Store& rendezvous_;
  const EtcdClusterOptions options_;
  const std::string prefix_;  // of the keys in the rendezvous store
  bool may_serve_ = true;     // the program is installed
  Member own_;                // this node's addresses
  std::optional<ReservedPort> client_port_;
  std::optional<ReservedPort> peer_port_;
  LeaseId lease_ = kNoLease;  // of the place
  std::string place_;         // key of the place; empty: none
  std::string url_;
  std::unique_ptr<EtcdServer> server_;
};

}  // namespace ffdl::launch
