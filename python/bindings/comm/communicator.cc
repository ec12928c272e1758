#include "ffdl/comm/communicator.h"

#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/base/record.h"
#include "bindings/base/signals.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "bindings/comm/collectives.h"
#include "bindings/comm/communicator_handle.h"
#include "bindings/shm/shared_memory.h"
#include "ffdl/comm/all_reduce_subscriber.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

void bind_world(py::module_& module) {
  Record<Member> member(
      module, "Member",
      R"(One process or thread of a job; a str, or a tuple of the two, is accepted, too.

A new life under an old id has a larger incarnation.)");
  member.field("id", &Member::id).field("incarnation", &Member::incarnation);
  member.type()
      .def(py::init([](std::string id, uint64_t incarnation) {
             return Member{std::move(id), incarnation};
           }),
           py::arg("id"), py::arg("incarnation") = 0)
      .def(py::init([](std::tuple<std::string, uint64_t> both) {
             return Member{std::move(std::get<0>(both)), std::get<1>(both)};
           }),
           py::arg("member"));
  py::implicitly_convertible<py::str, Member>();
  py::implicitly_convertible<py::tuple, Member>();
  Record<World> world(module, "World",
                      R"(The members of one generation of a job, in the order of their ranks.

rank: of this member, its index in `members`.
size: the number of members.
job: the name under which the members find each other. Worlds of the same members and generation in
one store need different names.

A tuple of generation, rank and members is accepted in its place, with no job.)");
  world.field("generation", &World::generation)
      .field("rank", &World::rank)
      .field("members", &World::members)
      .field("job", &World::job);
  world.type()
      .def(
          py::init([](uint64_t generation, int rank, std::vector<Member> members, std::string job) {
            return World{.generation = generation,
                         .rank = rank,
                         .members = std::move(members),
                         .job = std::move(job)};
          }),
          py::arg("generation"), py::arg("rank"), py::arg("members"), py::arg("job") = "")
      .def(py::init([](std::tuple<uint64_t, int, std::vector<Member>> all) {
             return World{std::get<0>(all), std::get<1>(all), std::move(std::get<2>(all))};
           }),
           py::arg("world"))
      .def_property_readonly("size", &World::size);
  py::implicitly_convertible<py::tuple, World>();
}

py::object run(const py::object& self, Request request, double timeout_s) {
  auto& handle = self.cast<CommunicatorHandle&>();
  const Exclusive one_thread(handle.busy);
  const Time deadline = deadline_after(timeout_s);
  handle.expect_reach(request.in);
  handle.expect_reach(request.out);
  check(run_operations(handle,
                       [&] { return handle.communicator->run(request.operation(), deadline); }));
  return py::none();
}

int rank_of(const py::object& self) {
  return self.cast<const CommunicatorHandle&>().communicator->world().rank;
}

const World& world_of(const CommunicatorHandle& handle) { return handle.communicator->world(); }

// Lets both handles live on; no operation of `before` runs any more.
void continue_from(CommunicatorHandle& handle, CommunicatorHandle* before, double timeout_s) {
  const Exclusive one_thread(handle.busy);
  std::optional<Exclusive> nor_of_the_other;
  if (before != nullptr) nor_of_the_other.emplace(before->busy);
  const Time deadline = deadline_after(timeout_s);
  Communicator* const old = before == nullptr ? nullptr : before->communicator.get();
  check(run_operations(handle, [&] { return handle.communicator->continue_from(old, deadline); }));
}

template <Status (Communicator::*Call)(Time)>
void run_between_operations(CommunicatorHandle& handle, double timeout_s) {
  const Exclusive one_thread(handle.busy);
  const Time deadline = deadline_after(timeout_s);
  check(run_operations(handle, [&] { return (handle.communicator.get()->*Call)(deadline); }));
}

// Keeps the store until the next opening has closed the one before.
void open_to_subscribers(CommunicatorHandle& handle, py::object store, double timeout_s,
                         uint64_t ring_bytes) {
  const Exclusive one_thread(handle.busy);
  const Time deadline = deadline_after(timeout_s);
  auto& where = store.cast<Store&>();
  const Status opened = run_operations(handle, [&] {
    return handle.communicator->open_to_subscribers(where, ring_bytes, deadline);
  });
  handle.told = std::move(store);
  check(opened);
}

void bind_pauses(py::class_<CommunicatorHandle>& communicator) {
  communicator
      .def("suspend", &run_between_operations<&Communicator::suspend>,
           py::arg("timeout_s") = kDefaultTimeoutS,
           R"(Frees this communicator's GPU memory for other work on the GPUs.

Lasts until resume(); all ranks call both, in turns. In between, operations on arrays in a GPU's
memory raise InvalidArgument. Frees memory with NCCL; NCCL's own memory needs NCCL 2.29.7 or
later. Other back ends have no such memory. Raises the errors of operations.)")
      .def("resume", &run_between_operations<&Communicator::resume>,
           py::arg("timeout_s") = kDefaultTimeoutS,
           "Allocates the memory again that suspend() freed. Raises the errors of\n"
           "operations.");
}

void bind_rest(py::class_<CommunicatorHandle>& communicator) {
  communicator
      .def(
          "abort",
          [](CommunicatorHandle& handle, std::string why) {
            if (handle.runner == this_thread()) {
              raise_invalid_argument(
                  "abort: called by the handler of a signal on the thread that is inside an "
                  "operation; raise an exception there instead, which aborts it");
            }
            const StatusCode code = why.empty() ? StatusCode::kOk : StatusCode::kCancelled;
            without_lock([&] { handle.communicator->abort(Status(code, std::move(why))); });
          },
          py::arg("why") = "",
          R"(Ends the operations of this rank: none can succeed any more; the others get PeerLost.

From any thread, at any time, with one exception: a signal handler that has interrupted an
operation of this object raises an exception instead. Returns when no operation uses this rank's
arrays any more.)")
      .def(
          "register_memory",
          [](CommunicatorHandle& handle, const py::object& memory) {
            const Exclusive one_thread(handle.busy);
            const auto behind = memory_behind(memory);
            check(without_lock([&] { return handle.communicator->register_memory(behind); }));
          },
          py::arg("memory"),
          R"(Lets an all_reduce in place of the whole of `memory` run without a copy from now on.

memory: an array of ffdl.shared_array(), or a SharedMemory. Copies are saved if every rank passes
registered memory; nothing else changes. The registration ends with its last array. Raises
InvalidArgument for any other array, and for a part of one.)")
      .def("continue_from", &continue_from, py::arg("before"),
           py::arg("timeout_s") = kDefaultTimeoutS,
           R"(Ends the previous world; `before` is this rank's communicator in it, None: nothing.

With GpuWorlds.REUSE all ranks call it once before their first operation, since it connects their
GPUs; otherwise the call is optional. Afterwards operations of `before` raise Cancelled. Raises
the errors of operations and of connect_communicator().)")
      .def("open_to_subscribers", &open_to_subscribers, py::arg("store"),
           py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
           py::arg("ring_bytes") = uint64_t{64} << 20,
           R"(Lets a subscriber that finds this world in `store` receive every result from now on.

All ranks call it at the same place in the order of operations, with the same options, and
likewise close_to_subscribers(). They wait for no subscriber. ring_bytes: sums stay until newer
ones need the room; use several times the largest. Raises Unimplemented if a back end has no
subscribers, Exhausted (no memory), Unavailable (ranks cannot open each other's memory), and the
errors of operations.)")
      .def(
          "close_to_subscribers",
          [](CommunicatorHandle& handle) {
            const Exclusive one_thread(handle.busy);
            without_lock([&] { handle.communicator->close_to_subscribers(); });
            handle.told = py::none();
          },
          "Subscribers receive nothing after this.")
      .def_property_readonly("world", &world_of)
      .def_property_readonly("backend",
                             [](const CommunicatorHandle& h) { return h.communicator->backend(); })
      .def_property_readonly("rank", [](const CommunicatorHandle& h) { return world_of(h).rank; })
      .def_property_readonly("size",
                             [](const CommunicatorHandle& h) { return world_of(h).size(); });
}

void bind_connecting(py::module_& module) {
  const CommunicatorOptions defaults;
  module.def(
      "connect_communicator",
      [](const World& world, Store& store, double timeout_s, Backend backend, std::string address,
         bool tls, uint64_t slot_bytes, int device, GpuWorlds gpu_worlds) {
        const Time deadline = deadline_after(timeout_s);
        auto connected = without_lock([&] {
          return connect_communicator(world, store, deadline,
                                      {.backend = backend,
                                       .address = std::move(address),
                                       .tls = tls,
                                       .slot_bytes = slot_bytes,
                                       .device = device,
                                       .gpu_worlds = gpu_worlds,
                                       .interrupt_check = look_for_signals});
        });
        raise_if_set();
        std::unique_ptr<Communicator> communicator = take(std::move(connected));
        const Backend found = communicator->backend();
        const bool looks = found != Backend::kGloo && found != Backend::kNccl;
        return std::make_unique<CommunicatorHandle>(std::move(communicator), looks, device);
      },
      py::arg("world"), py::arg("store"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
      py::arg("backend") = defaults.backend, py::arg("address") = defaults.address,
      py::arg("tls") = defaults.tls, py::arg("slot_bytes") = defaults.slot_bytes,
      py::arg("device") = defaults.device, py::arg("gpu_worlds") = defaults.gpu_worlds,
      R"(Connects to the other members, processes or threads; returns when all have joined.

Every member calls it with the same generation and members, its own rank, and the same store.
backend: the same at all members; AUTO detects the members that share a host.
address: the IP address of this host at which members on others reach it. A connection there
counts once it has proved that it is a member's. "": the loopback interface, for members that share
one.
tls: encrypts the connections by TLS 1.3, as FFDL_TLS=1 does; the same at all members. Without it
the data is neither encrypted nor signed.
slot_bytes: of each rank, in shared memory, for data in transit; whole pages of 4096.
device: with NCCL and DEVICE_SHM the number of this rank's GPU; -1: the one that this thread
uses. Name it if there are several: PyTorch's choice may be unknown here.
gpu_worlds: with NCCL; the same at all members. With REUSE call continue_from().
Raises Timeout (names the missing members), PeerLost (a member joined and died), and the errors of
Store. Raises InvalidArgument (no member; members that disagree on the backend, or cannot reach each
other by it). Raises WorldChanged if another process has begun this generation, and Conflict if
another process is this rank. Raises Unimplemented (a backend that was not built; a rank without a
GPU or NCCL). Raises Exhausted (no room in /dev/shm or in a GPU's memory).)");
  module.def(
      "own_address",
      [](const std::string& host, uint16_t port) {
        return take(without_lock([&] { return own_address(host, port); }));
      },
      py::arg("host"), py::arg("port"),
      "Returns the IP address at which other hosts reach this one: that of the interface or\n"
      "network in FFDL_INTERFACE, or else the one from which this host sends to that server.\n"
      "\"\": the server is on loopback, or not known. Nothing is sent.\n"
      "Raises InvalidArgument (no interface has that name, or an address in that network).");
  module.def(
      "make_local_communicators",
      [](uint64_t generation, const std::vector<Member>& members) {
        std::vector<std::unique_ptr<CommunicatorHandle>> handles;
        for (auto& made : take(make_local_communicators(generation, members))) {
          handles.push_back(std::make_unique<CommunicatorHandle>(std::move(made), false));
        }
        return handles;
      },
      py::arg("generation"), py::arg("members"),
      "Returns one Communicator per rank, for the threads of one process: for tests and\n"
      "simulations. Raises InvalidArgument.");
}

}  // namespace

void CommunicatorHandle::expect_reach(const Elements& elements) const {
  if (!elements.device) return;
  if (!reaches_devices(communicator->backend())) {
    raise_invalid_argument(
        "run an operation: an array is in a GPU's memory, and this communicator uses the host's; "
        "connect it with Backend.NCCL or Backend.DEVICE_SHM, or copy the array to the CPU, "
        "e.g. with x.cpu()");
  }
  const int its_own = *elements.device;
  if (device == kDeviceInUse || its_own == kDeviceInUse || device == its_own) return;
  raise_invalid_argument("run an operation: an array is in the memory of GPU " +
                         std::to_string(its_own) + ", and this communicator is of GPU " +
                         std::to_string(device) + "; give it arrays of that GPU");
}

void bind_communicator(py::module_& module) {
  py::native_enum<Backend>(module, "Backend", "enum.Enum",
                           "How the members of a communicator reach each other.")
      .value("AUTO", Backend::kAuto)
      .value("SHM", Backend::kShm)
      .value("TCP", Backend::kTcp)
      .value("GLOO", Backend::kGloo)
      .value("HIERARCHICAL", Backend::kHierarchical)
      .value("LOCAL", Backend::kLocal)
      .value("NCCL", Backend::kNccl)
      .value("DEVICE_SHM", Backend::kDeviceShm)
      .finalize();
  py::native_enum<GpuWorlds>(
      module, "GpuWorlds", "enum.Enum",
      "How NCCL connects the GPUs of a job's next world. FRESH: anew, while the present world\n"
      "works. REUSE: grown or shrunk from the present one if NCCL can; all wait.")
      .value("FRESH", GpuWorlds::kFresh)
      .value("REUSE", GpuWorlds::kReuse)
      .finalize();
  py::native_enum<ReduceOp>(
      module, "ReduceOp", "enum.Enum",
      "The reduction of elements. Integers wrap around and have no MEAN; MIN and MAX are NaN\n"
      "if any is NaN.")
      .value("SUM", ReduceOp::kSum)
      .value("MEAN", ReduceOp::kMean)
      .value("MIN", ReduceOp::kMin)
      .value("MAX", ReduceOp::kMax)
      .value("PRODUCT", ReduceOp::kProduct)
      .finalize();
  bind_world(module);
  py::class_<CommunicatorHandle> communicator(
      module, "Communicator",
      R"(The members of one world, each of which calls the same collectives in the same order.

world: the World.
rank, size: those of the world.
backend: how the members reach each other, a Backend.

Arrays are NumPy arrays, tensors that support DLPack (PyTorch), and objects with the buffer protocol
or __cuda_array_interface__. They hold int8 to int64, float16, bfloat16 (of ml_dtypes or PyTorch),
float32 or float64. They are C-contiguous, in any shape, and are read and written in place. A list
counts as the concatenation of its arrays, so that many small ones take part in one operation. Each
rank may divide its list differently.

With NCCL and DEVICE_SHM all arrays of an operation are in the GPU's memory, or all in the host's.
Other back ends use the host's alone. An operation follows the work queued on CUDA's default stream.
For a tensor that supports DLPack it also follows the work on the producer's stream, such as
PyTorch's current stream; wait for other streams. After an operation its result is ready for all
streams.
A sum has the same bits at every rank, on every back end (but NCCL) and in every order of
arrival. After the first failure a communicator stays failed: connect another, of a newer world.
One thread at a time runs operations; abort() from any. Every operation waits for the others up
to `timeout_s` seconds, lets other threads run, and ends on Ctrl-C, which aborts.
Raises Timeout, PeerLost (another member died, failed or left) and Cancelled (aborted, or a fork of
the member). Raises InvalidArgument for a wrong call; the communicator stays usable. Also raises it
for ranks that disagree; the message names both. The header is ffdl/comm/communicator.h.)");
  bind_collectives(communicator, {&run, &rank_of});
  bind_pauses(communicator);
  bind_rest(communicator);
  bind_connecting(module);
}

}  // namespace ffdl::python
