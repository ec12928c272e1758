#include "ffdl/communicator.h"

#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "collectives.h"
#include "communicator_handle.h"
#include "ffdl/listener.h"
#include "record.h"
#include "shared_memory.h"
#include "signals.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

void bind_world(py::module_& module) {
  Record<Member> member(
      module, "Member",
      R"(One process or thread of a job; a str, or a tuple of the two, does as well.

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

rank: of this member, its index in `members`. size: how many there are. A tuple of generation,
rank and members does as well.)");
  world.field("generation", &World::generation)
      .field("rank", &World::rank)
      .field("members", &World::members);
  world.type()
      .def(py::init([](uint64_t generation, int rank, std::vector<Member> members) {
             return World{generation, rank, std::move(members)};
           }),
           py::arg("generation"), py::arg("rank"), py::arg("members"))
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

// Both live on; of `before` nothing runs any more.
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

// The store is kept until the next opening has closed the one before.
void open_to_listeners(CommunicatorHandle& handle, py::object store, double timeout_s,
                       uint64_t ring_bytes) {
  const Exclusive one_thread(handle.busy);
  const Time deadline = deadline_after(timeout_s);
  auto& where = store.cast<Store&>();
  const Status opened = run_operations(handle, [&] {
    return handle.communicator->open_to_listeners(where, {.ring_bytes = ring_bytes}, deadline);
  });
  handle.told = std::move(store);
  check(opened);
}

void bind_pauses(py::class_<CommunicatorHandle>& communicator) {
  communicator
      .def("suspend", &run_between_operations<&Communicator::suspend>,
           py::arg("timeout_s") = kDefaultTimeoutS,
           R"(For work of another kind on the GPUs: what this keeps of their memory is given back.

Until resume(); all ranks call both, in turns. In between operations on arrays in a GPU's memory
raise InvalidArgument. With NCCL, and its own memory with NCCL 2.29.7 or later; others have none.
Raises what operations do.)")
      .def("resume", &run_between_operations<&Communicator::resume>,
           py::arg("timeout_s") = kDefaultTimeoutS,
           "Takes the memory again that suspend() gave back. Raises what operations do.");
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
            without_lock([&] {
              handle.communicator->abort(Status(StatusCode::kCancelled, std::move(why)));
            });
          },
          py::arg("why") = "aborted",
          R"(Ends the operations of this rank: none can end well any more; the others get PeerLost.

From any thread, at any time, but for a signal's handler that has interrupted an operation of this
object: it raises an exception instead. Returns when nothing touches this rank's arrays any more.)")
      .def(
          "register_memory",
          [](CommunicatorHandle& handle, const py::object& memory) {
            const Exclusive one_thread(handle.busy);
            const auto behind = memory_behind(memory);
            check(without_lock([&] { return handle.communicator->register_memory(behind); }));
          },
          py::arg("memory"),
          R"(From now on an all_reduce in place of the whole of `memory` may be made without a copy.

memory: an array of ffdl.shared_array(), or a SharedMemory. It is copied less where every rank
gives such a one; nothing else changes. It is forgotten when its last array has gone.
Raises InvalidArgument for any other array, and for a part of one.)")
      .def(
          "continue_from", &continue_from, py::arg("before"),
          py::arg("timeout_s") = kDefaultTimeoutS,
          R"(The world before this one is over; `before` is what this rank had in it, None: nothing.

With GpuWorlds.DERIVED all ranks call it once before their first operation, as it connects their
GPUs; otherwise they may. Operations of `before` raise Cancelled from then on.
Raises what operations and connect_communicator() do.)")
      .def("open_to_listeners", &open_to_listeners, py::arg("store"),
           py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
           py::arg("ring_bytes") = ListenerOptions{}.ring_bytes,
           R"(From now on a Listener that finds this world in `store` hears every all_reduce.

All ranks call it in one place of the order of operations, with the same options, as they do
close_to_listeners(). They wait for no listener.
ring_bytes: sums stay until newer ones need the room; several times the largest.
Raises Unimplemented where a back end has none, Exhausted (no memory), Unavailable (ranks cannot
open each other's memory), and what operations do.)")
      .def(
          "close_to_listeners",
          [](CommunicatorHandle& handle) {
            const Exclusive one_thread(handle.busy);
            without_lock([&] { handle.communicator->close_to_listeners(); });
            handle.told = py::none();
          },
          "Listeners hear nothing after this.")
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
         uint64_t slot_bytes, int device, GpuWorlds gpu_worlds) {
        const Time deadline = deadline_after(timeout_s);
        auto connected = without_lock([&] {
          return connect_communicator(world, store, deadline,
                                      {.backend = backend,
                                       .address = std::move(address),
                                       .slot_bytes = slot_bytes,
                                       .device = device,
                                       .gpu_worlds = gpu_worlds,
                                       .look = look_for_signals});
        });
        raise_if_set();
        std::unique_ptr<Communicator> communicator = take(std::move(connected));
        const Backend found = communicator->backend();
        const bool looks = found == Backend::kShm || found == Backend::kDeviceShm;
        return std::make_unique<CommunicatorHandle>(std::move(communicator), looks, device);
      },
      py::arg("world"), py::arg("store"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
      py::arg("backend") = defaults.backend, py::arg("address") = defaults.address,
      py::arg("slot_bytes") = defaults.slot_bytes, py::arg("device") = defaults.device,
      py::arg("gpu_worlds") = defaults.gpu_worlds,
      R"(Meets the other members, processes or threads; returns when all have come.

Every member calls it with the same generation and members, its own rank, and the same store.
backend: all must say the same; AUTO finds out who shares a host.
address: the IP address of this host at which members on others reach it; what comes in there is
trusted. "": the loopback interface, for members that share one.
slot_bytes: of each rank, in shared memory, for what is on its way; whole pages of 4096.
device: with NCCL and DEVICE_SHM the number of this rank's GPU; -1: the one that this thread uses.
Name it where there are several: what PyTorch has chosen need not be known here.
gpu_worlds: with NCCL; all must say the same, and with DERIVED call continue_from().
Raises Timeout (names who has not come), PeerLost (somebody came and died), InvalidArgument (no
member; members that disagree on the backend, or cannot reach each other by it), WorldChanged (this
generation has been begun by another process), Conflict (another process is this rank),
Unimplemented (a backend that was not built; a rank without a GPU or NCCL), Exhausted (no room in
/dev/shm or in a GPU's memory), and what Store does.)");
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
      "One Communicator per rank, for the threads of one process: for tests and simulations.\n"
      "Raises InvalidArgument.");
}

}  // namespace

void CommunicatorHandle::expect_reach(const Elements& elements) const {
  if (!elements.device) return;
  if (!reaches_devices(communicator->backend())) {
    raise_invalid_argument(
        "run an operation: an array lies in a GPU's memory, and this communicator works in the "
        "host's; connect it with Backend.NCCL or Backend.DEVICE_SHM, or copy the array to the CPU, "
        "e.g. with x.cpu()");
  }
  const int its_own = *elements.device;
  if (device == kDeviceInUse || its_own == kDeviceInUse || device == its_own) return;
  raise_invalid_argument("run an operation: an array lies in the memory of GPU " +
                         std::to_string(its_own) + ", and this communicator is of GPU " +
                         std::to_string(device) + "; give it arrays of that one");
}

void bind_communicator(py::module_& module) {
  py::native_enum<Backend>(module, "Backend", "enum.Enum",
                           "How the members of a communicator reach each other.")
      .value("AUTO", Backend::kAuto)
      .value("SHM", Backend::kShm)
      .value("GLOO", Backend::kGloo)
      .value("HIERARCHICAL", Backend::kHierarchical)
      .value("LOCAL", Backend::kLocal)
      .value("NCCL", Backend::kNccl)
      .value("DEVICE_SHM", Backend::kDeviceShm)
      .finalize();
  py::native_enum<GpuWorlds>(
      module, "GpuWorlds", "enum.Enum",
      "When NCCL connects the GPUs of a job's next world. ANEW: from nothing, while the present\n"
      "world works. DERIVED: grown or shrunk out of the present one where NCCL can; all wait.")
      .value("ANEW", GpuWorlds::kAnew)
      .value("DERIVED", GpuWorlds::kDerived)
      .finalize();
  py::native_enum<ReduceOp>(
      module, "ReduceOp", "enum.Enum",
      "How elements are put together. Integers wrap around and have no MEAN;\n"
      "MIN and MAX are NaN if any is NaN.")
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

world; rank and size: of it. backend: how they reach each other, a Backend.
Arrays: NumPy arrays, tensors that speak DLPack (PyTorch), anything with the buffer protocol or
__cuda_array_interface__; int8 to int64, float16, bfloat16 (of ml_dtypes or PyTorch), float32,
float64; C-contiguous, in any shape, read and written where they lie. A list counts as the
concatenation of its arrays, cut as each rank likes, so that many small ones take part in one
operation.

With NCCL and DEVICE_SHM all arrays of an operation lie in the GPU's memory, or all in the host's;
other back ends reach the host's alone. What CUDA's default stream was given comes first, and with
it what that of a tensor that speaks DLPack was, such as PyTorch's current stream; wait for others.
After an operation its result is there for all streams.
A sum is the same bits at every rank, on every back end (but NCCL) and in every order of arrival.
After the
first failure a communicator stays failed: connect another, of a newer world. One thread at a time
runs operations; abort() from any. Every operation waits for the others up to `timeout_s` seconds,
lets other threads run, and ends on Ctrl-C, which aborts.
Raises Timeout, PeerLost (another died, failed or left), Cancelled (aborted, or a fork of the
member), InvalidArgument (the call itself: the communicator lives on; or ranks that disagree: both
are named). The header is ffdl/communicator.h.)");
  bind_collectives(communicator, {&run, &rank_of});
  bind_pauses(communicator);
  bind_rest(communicator);
  bind_connecting(module);
}

}  // namespace ffdl::python
