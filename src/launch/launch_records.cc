#include "launch/launch_records.h"

#include <set>

#include "base/errors.h"
#include "base/limits.h"
#include "launch/wanted_workers.h"
#include "wire/json_record.h"

namespace ffdl::launch {
namespace {

using wire::Json;
using wire::RecordReader;

constexpr int kWorkersMax = base::kRanksMax;

int count(RecordReader& fields, const char* name, int most = INT32_MAX) {
  return fields.integer(name, 0, most);
}

}  // namespace

std::string encode(const NodeStatus& node) {
  Json workers = Json::array();
  for (const WorkerStatus& worker : node.workers) {
    workers.push_back({{"id", worker.id},
                       {"phase", worker.phase},
                       {"process", worker.process},
                       {"restarts", worker.restarts}});
  }
  return wire::dump({{"node", node.node},
                     {"process", node.process},
                     {"min_workers", node.min_workers},
                     {"max_workers", node.max_workers},
                     {"workers", workers}});
}

Result<NodeStatus> parse_node(std::string_view text) {
  const Json json = wire::parse_json(text);
  RecordReader fields(json);
  NodeStatus node{count(fields, "node"), count(fields, "process"),
                  count(fields, "min_workers", kWorkersMax),
                  count(fields, "max_workers", kWorkersMax)};
  if (node.min_workers > node.max_workers) fields.fail("min_workers");
  std::set<std::string> ids;
  fields.list("workers", kWorkersMax, [&](RecordReader& worker) {
    node.workers.push_back({worker.text("id"), worker.text("phase"), count(worker, "process"),
                            count(worker, "restarts")});
    const std::string& id = node.workers.back().id;
    if (id.empty() || !ids.insert(id).second) worker.fail("id");
  });
  FFDL_RETURN_IF_ERROR(fields.outcome("a node's record"));
  return node;
}

}  // namespace ffdl::launch

namespace ffdl {

Result<launch::FoundRun> launch::find_run(Store& store, std::string_view job) {
  const Keys keys(job);
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store.list(keys.prefix()));
  FoundRun found;
  for (const Entry& entry : entries) {
    if (entry.key == keys.wanted()) {
      found.run.wanted_workers = parse_wanted(entry.value);
      found.wanted = entry.revision;
    }
    if (!entry.key.starts_with(keys.nodes())) continue;
    FFDL_ASSIGN_OR_RETURN(NodeStatus node, parse_node(entry.value));
    if (entry.key != keys.node(node.node)) {
      return base::make_error(StatusCode::kCorrupt, "read key '{}': it holds the record of node {}",
                              entry.key, node.node);
    }
    found.run.nodes.push_back(std::move(node));
  }
  return found;
}

Result<RunStatus> read_run(Store& store, std::string_view job) {
  FFDL_ASSIGN_OR_RETURN(launch::FoundRun found, launch::find_run(store, job));
  return std::move(found.run);
}

}  // namespace ffdl
