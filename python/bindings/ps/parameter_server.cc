#include "ffdl/ps/parameter_server.h"

#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/base/arrays.h"
#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/type_name.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/ps/server_handle.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

void bind_enums(py::module_& module) {
  py::native_enum<Synchrony>(module, "Synchrony", "enum.Enum",
                             "The allowed distance between learners.")
      .value("ASYNC", Synchrony::kAsync)
      .value("STALE", Synchrony::kStale)
      .value("BULK", Synchrony::kBulk)
      .finalize();
  py::native_enum<NonFinite>(module, "NonFinite", "enum.Enum",
                             "The treatment of a gradient that holds NaN or Inf.")
      .value("REJECT", NonFinite::kReject)
      .value("SKIP", NonFinite::kSkip)
      .value("ACCEPT", NonFinite::kAccept)
      .finalize();
  py::native_enum<PullMode>(module, "PullMode", "enum.Enum",
                            "The consistency of a copy of weights.")
      .value("RELAXED", PullMode::kRelaxed)
      .value("SNAPSHOT", PullMode::kSnapshot)
      .finalize();
}

void bind_stats(py::module_& module) {
  Record<LearnerProgress>(module, "LearnerProgress", R"(Statistics of the learners of one slot.

attached: a learner is attached at present.
pid: of the last learner, in its own pid namespace.
incarnation: how often the slot was attached.
published: gradients.
folded: of these, into all shards.
mini_batches: folded, as late ones are added up.
skipped: for NaN or Inf.
samples: folded or skipped.)")
      .field("slot", &LearnerProgress::slot)
      .field("attached", &LearnerProgress::attached)
      .field("pid", &LearnerProgress::pid)
      .field("incarnation", &LearnerProgress::incarnation)
      .field("published", &LearnerProgress::published)
      .field("folded", &LearnerProgress::folded)
      .field("mini_batches", &LearnerProgress::mini_batches)
      .field("skipped", &LearnerProgress::skipped)
      .field("samples", &LearnerProgress::samples);
  Record<PartitionProgress>(
      module, "PartitionProgress",
      "The ledger of one partition. committed: the first position that is not committed.\n"
      "samples: in the weights. repeated: positions that were committed again. missing:\n"
      "positions that were skipped.")
      .field("committed", &PartitionProgress::committed)
      .field("samples", &PartitionProgress::samples)
      .field("repeated", &PartitionProgress::repeated)
      .field("missing", &PartitionProgress::missing);
  Record<MemoryPlacement>(
      module, "MemoryPlacement",
      R"(The placement of the pages of a server's segment, as the kernel reports it to this process.

shard_nodes: the NUMA node of each shard's weights; -1: the kernel does not report it.
bound: each shard's pages were requested on its node.
threads_bound: threads of this process that are bound to their node.
huge_page_bytes: of the segment.
note, huge_page_note: what the system refuses or grants.)")
      .field("shard_nodes", &MemoryPlacement::shard_nodes)
      .field("bound", &MemoryPlacement::bound)
      .field("threads_bound", &MemoryPlacement::threads_bound)
      .field("note", &MemoryPlacement::note)
      .field("huge_page_bytes", &MemoryPlacement::huge_page_bytes)
      .field("huge_page_note", &MemoryPlacement::huge_page_note);
  Record<ParameterServerStats>(module, "ParameterServerStats",
                               R"(Statistics of a server.

version: gradients folded by the slowest shard.
epoch: 1 for the server that made the segment, one more for each that took it over.
server_alive, server_pid: of it.
recoveries: folds that a successor finished.
learners_reclaimed: learners that died attached.
learners: a LearnerProgress for each slot that was used.
partitions: a PartitionProgress for each.
memory: a MemoryPlacement.
device: the GPU that folds, as the server reports it, or None.
staleness: [0] counts gradients made from the newest weights. [b] counts those that 2**(b-1) to 2**b
- 1 others overtook.)")
      .field("version", &ParameterServerStats::version)
      .field("epoch", &ParameterServerStats::epoch)
      .field("server_alive", &ParameterServerStats::server_alive)
      .field("server_pid", &ParameterServerStats::server_pid)
      .field("recoveries", &ParameterServerStats::recoveries)
      .field("learners_reclaimed", &ParameterServerStats::learners_reclaimed)
      .field("learners", &ParameterServerStats::learners)
      .field("partitions", &ParameterServerStats::partitions)
      .field("staleness", &ParameterServerStats::staleness)
      .field("memory", &ParameterServerStats::memory)
      .field("device", &ParameterServerStats::device);
}

void bind_cut(py::module_& module) {
  py::class_<ParameterServerCut>(
      module, "ParameterServerCut",
      R"(A consistent state of a whole server, for ParameterServer.create(cut=).

Every shard was folded exactly to the same gradients: `version` of them.

updates: the same, or rounds with Synchrony.BULK.
rule: its kind.
partitions: a PartitionProgress for each.)")
      .def_readonly("version", &ParameterServerCut::version)
      .def_readonly("updates", &ParameterServerCut::updates)
      .def_readonly("rule", &ParameterServerCut::rule)
      .def_property_readonly(
          "weights",
          [](const py::object& self) {
            return read_only_view(self.cast<const ParameterServerCut&>().weights, self);
          },
          "float32[parameters], read-only, no copy")
      .def_property_readonly(
          "state",
          [](const py::object& self) {
            py::list arrays;
            for (const auto& values : self.cast<const ParameterServerCut&>().state) {
              arrays.append(read_only_view(values, self));
            }
            return arrays;
          },
          "one float32[parameters] per value that the rule keeps, read-only, no copy")
      .def_readonly("partitions", &ParameterServerCut::partitions)
      .def(
          "save",
          [](const ParameterServerCut& cut, const std::string& path) {
            check(without_lock([&] { return cut.save(path); }));
          },
          py::arg("path"), "Writes the cut atomically, with a checksum.")
      .def_static(
          "load",
          [](const std::string& path) {
            return take(without_lock([&] { return ParameterServerCut::load(path); }));
          },
          py::arg("path"), "Raises NotFound, or Corrupt for a torn or changed file.");
}

// Returns the type with that name in NumPy and PyTorch.
DType gradient_type_of(const std::string& name) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (to_string(type) == name) return type;
  }
  raise_invalid_argument("create a parameter server: gradient_type is '" + name +
                         "'; give 'float32', 'bfloat16' or 'float16'");
}

void bind_create(py::class_<ServerHandle>& server) {
  const ParameterServerOptions defaults;
  server.def_static(
      "create",
      [](uint64_t parameters, std::string name, const UpdateRuleOptions& rule,
         const LearningRateSchedule& schedule, float clip_value, float clip_norm,
         NonFinite non_finite, Synchrony synchrony, uint32_t staleness, int threads,
         int learners_max, uint32_t partitions, uint32_t ranges_max,
         const std::string& gradient_type, uint32_t rows_max, bool bind_to_nodes,
         std::optional<int> device, const ParameterServerCut* cut) {
        const ParameterServerOptions options{.name = std::move(name),
                                             .parameters = parameters,
                                             .rule = rule,
                                             .schedule = schedule,
                                             .clip_value = clip_value,
                                             .clip_norm = clip_norm,
                                             .non_finite = non_finite,
                                             .synchrony = synchrony,
                                             .staleness = staleness,
                                             .threads = threads,
                                             .learners_max = learners_max,
                                             .partitions = partitions,
                                             .ranges_max = ranges_max,
                                             .gradient_type = gradient_type_of(gradient_type),
                                             .rows_max = rows_max,
                                             .bind_to_nodes = bind_to_nodes,
                                             .device = device};
        return std::make_unique<ServerHandle>(
            take(without_lock([&] { return ParameterServer::create(options, nullptr, cut); })));
      },
      py::kw_only(), py::arg("parameters"), py::arg("name") = defaults.name,
      py::arg("rule") = defaults.rule, py::arg("schedule") = defaults.schedule,
      py::arg("clip_value") = defaults.clip_value, py::arg("clip_norm") = defaults.clip_norm,
      py::arg("non_finite") = defaults.non_finite, py::arg("synchrony") = defaults.synchrony,
      py::arg("staleness") = defaults.staleness, py::arg("threads") = defaults.threads,
      py::arg("learners_max") = defaults.learners_max, py::arg("partitions") = defaults.partitions,
      py::arg("ranges_max") = defaults.ranges_max,
      py::arg("gradient_type") = std::string(to_string(defaults.gradient_type)),
      py::arg("rows_max") = defaults.rows_max, py::arg("bind_to_nodes") = defaults.bind_to_nodes,
      py::arg("device") = defaults.device, py::arg("cut") = nullptr,
      R"(Makes the segment: `parameters` float32 weights, all zero, or those of `cut`.

name: letters, digits, '.', '-', '_'; empty for learners that are threads of this process. The other
arguments are the fields of ParameterServerOptions in ffdl/ps/parameter_server.h. gradient_type:
"float32", "bfloat16" or "float16".
Raises Conflict (name in use), Exhausted (no room in /dev/shm), InvalidArgument; with a device also
Unimplemented (no GPU, driver or CUDA).)");
  server.def_static(
      "adopt",
      [](const std::string& name) {
        return std::make_unique<ServerHandle>(
            take(without_lock([&] { return ParameterServer::adopt(name); })));
      },
      py::arg("name"),
      "Takes over the segment of a dead server; start() finishes the fold in progress. Raises\n"
      "Conflict (its server lives), NotFound, Corrupt, InvalidArgument.");
}

// Runs the server on a thread of its own, so that this thread can check signals and `stop`. It
// polls, since the waits of `threading` are not safe against a signal that raises.
void serve(ServerHandle& handle, const py::object& stop) {
  if (!stop.is_none() && !py::hasattr(stop, "is_set")) {
    throw py::type_error("serve: 'stop' is of type " + type_name(stop) +
                         "; give a threading.Event, or None");
  }
  const Exclusive one_thread(handle.busy);
  Status outcome;
  const auto ended = system_runtime().make_event();
  auto task = system_runtime().spawn("serve", [&](StopToken asked) {
    outcome = handle.server->serve(std::move(asked));
    ended->set();
  });
  if (!task) {
    check(Status(
        StatusCode::kExhausted,
        "serve: the system cannot start another thread; raise 'ulimit -u', 'ulimit -v' or the "
        "container's limit of processes"));
  }
  const auto finish = [&] { without_lock([&] { task.reset(); }); };
  try {
    while (!without_lock([&] { return ended->wait_until(deadline_in(kPiece)); })) {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();  // Ctrl-C
      if (!stop.is_none() && stop.attr("is_set")().cast<bool>()) break;
    }
  } catch (const py::error_already_set&) {
    finish();
    throw;
  }
  finish();
  check(outcome);
}

void bind_running(py::class_<ServerHandle>& server) {
  server
      .def(
          "start",
          [](ServerHandle& handle) {
            const Exclusive one_thread(handle.busy);
            check(handle.server->start());
          },
          "Starts the server's threads, which run without the interpreter lock.")
      .def(
          "stop",
          [](ServerHandle& handle) {
            const Exclusive one_thread(handle.busy);
            check(without_lock([&] { return handle.server->stop(); }));
          },
          "Folds the published gradients, then ends the threads.")
      .def("serve", &serve, py::arg("stop") = py::none(),
           "start(), then stop() when the threading.Event `stop` is set or Ctrl-C is pressed.\n"
           "Raises the failure that ended it.")
      .def(
          "cut",
          [](ServerHandle& handle, double timeout_s) {
            return take(wait(timeout_s, [&](Time deadline) { return handle.server->cut(deadline); },
                             {.starts_again = true}));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Returns a consistent state, while training goes on. Raises Timeout.")
      .def(
          "stats", [](const ServerHandle& handle) { return handle.server->stats(); },
          "Statistics of the server: ParameterServerStats. From any thread.")
      .def(
          "weights",
          [](const py::object& self) {
            return view(self.cast<ServerHandle&>().server->weights(), self);
          },
          "float32[parameters]: the shared weights themselves, no copy. Write the initial values\n"
          "here, before start(). The segment lives as long as this array.")
      .def_property_readonly("name", [](const ServerHandle& h) { return h.server->name(); })
      .def_property_readonly(
          "version", [](const ServerHandle& h) { return h.server->version(); },
          "Gradients folded so far.");
}

void bind_view(py::module_& module) {
  py::class_<ParameterServerView>(
      module, "ParameterServerView",
      "A view of a server of `parameters` parameters from any process; it takes part in\n"
      "nothing.")
      .def_static(
          "open",
          [](const std::string& name, double timeout_s) {
            return take(wait(timeout_s, [&](Time deadline) {
              return ParameterServerView::open(name, deadline);
            }));
          },
          py::arg("name"), py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits for the name to appear. Raises Timeout, Corrupt, InvalidArgument.")
      .def_property_readonly("parameters", &ParameterServerView::parameters)
      .def("stats", &ParameterServerView::stats, "Statistics of the server: ParameterServerStats.")
      .def(
          "pull",
          [](const ParameterServerView& look, const py::object& weights, PullMode mode) {
            const auto target = output(weights, look.parameters(), "weights");
            return take(without_lock([&] { return look.pull(target.span, mode); }));
          },
          py::arg("weights"), py::arg("mode") = PullMode::kRelaxed,
          "Copies the weights into a float32[parameters] array; returns their version.");
}

}  // namespace

void bind_parameter_server(py::module_& module) {
  bind_enums(module);
  bind_stats(module);
  bind_cut(module);
  py::class_<ServerHandle> server(module, "ParameterServer",
                                  R"(Weights, optimizer state and gradients of one host's learners.

create(), write weights(), start(); learners attach by name, or to this object from threads. The
segment's name is removed with the last reference to this object or to one of its arrays.)");
  bind_create(server);
  bind_running(server);
  bind_view(module);
}

}  // namespace ffdl::python
