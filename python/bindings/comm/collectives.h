#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "bindings/base/buffers.h"
#include "bindings/base/waiting.h"
#include "ffdl/comm/communicator.h"

// The collectives as methods, shared by the class that runs them at once (Communicator) and the
// class that starts them (OperationQueue).
namespace ffdl::python {

// One operation and its arguments.
struct Request {
  Operation operation() const { return {kind, in.buffers, out.buffers, reduce, root, peer}; }

  Collective kind = Collective::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  int peer = 0;
  Elements in{};
  Elements out{};
};

// The class's function for a request, the memory that its arrays may use, and its rank.
struct Target {
  pybind11::object (*run)(const pybind11::object& self, Request request, double timeout_s);
  int (*rank)(const pybind11::object& self);
};

template <class Class>
void bind_reductions(Class& to, Target target) {
  namespace py = pybind11;
  to.def(
        "all_reduce",
        [target](const py::object& self, const py::object& inout, ReduceOp op, double timeout_s) {
          return target.run(self,
                            {.kind = Collective::kAllReduce,
                             .reduce = op,
                             .out = elements_to_write(inout, "inout", Memory::kAny)},
                            timeout_s);
        },
        py::arg("inout"), py::arg("op") = ReduceOp::kSum, py::arg("timeout_s") = kDefaultTimeoutS,
        "Reduces every rank's `inout` into that of all ranks, in place.")
      .def(
          "all_reduce",
          [target](const py::object& self, const py::object& in, const py::object& out, ReduceOp op,
                   double timeout_s) {
            return target.run(self,
                              {.kind = Collective::kAllReduce,
                               .reduce = op,
                               .in = elements_to_read(in, "in_", Memory::kAny),
                               .out = elements_to_write(out, "out", Memory::kAny)},
                              timeout_s);
          },
          py::arg("in_"), py::arg("out"), py::arg("op") = ReduceOp::kSum,
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Reduces every rank's `in_` into `out` of all ranks, with as many elements.")
      .def(
          "reduce_scatter",
          [target](const py::object& self, const py::object& in, const py::object& out, ReduceOp op,
                   double timeout_s) {
            return target.run(self,
                              {.kind = Collective::kReduceScatter,
                               .reduce = op,
                               .in = elements_to_read(in, "in_", Memory::kAny),
                               .out = elements_to_write(out, "out", Memory::kAny)},
                              timeout_s);
          },
          py::arg("in_"), py::arg("out"), py::arg("op") = ReduceOp::kSum,
          py::arg("timeout_s") = kDefaultTimeoutS,
          "`out` of rank r becomes block r of the reduction of every `in_`, which has `size`\n"
          "times the elements of `out`.")
      .def(
          "reduce",
          [target](const py::object& self, const py::object& in, const py::object& out, int root,
                   ReduceOp op, double timeout_s) {
            Request request{.kind = Collective::kReduce,
                            .reduce = op,
                            .root = root,
                            .in = elements_to_read(in, "in_", Memory::kAny)};
            if (target.rank(self) == root)
              request.out = elements_to_write(out, "out", Memory::kAny);
            return target.run(self, std::move(request), timeout_s);
          },
          py::arg("in_"), py::arg("out"), py::kw_only(), py::arg("root"),
          py::arg("op") = ReduceOp::kSum, py::arg("timeout_s") = kDefaultTimeoutS,
          "Reduces every `in_` into the root's `out`; elsewhere `out` may be None.");
}

template <class Class>
void bind_moves_among_all(Class& to, Target target) {
  namespace py = pybind11;
  to.def(
        "all_gather",
        [target](const py::object& self, const py::object& in, const py::object& out,
                 double timeout_s) {
          return target.run(self,
                            {.kind = Collective::kAllGather,
                             .in = elements_to_read(in, "in_", Memory::kAny),
                             .out = elements_to_write(out, "out", Memory::kAny)},
                            timeout_s);
        },
        py::arg("in_"), py::arg("out"), py::arg("timeout_s") = kDefaultTimeoutS,
        "Gathers the `in_` of rank 0, 1, .. into `out` of all ranks: `size` times its elements.")
      .def(
          "all_to_all",
          [target](const py::object& self, const py::object& in, const py::object& out,
                   double timeout_s) {
            return target.run(self,
                              {.kind = Collective::kAllToAll,
                               .in = elements_to_read(in, "in_", Memory::kAny),
                               .out = elements_to_write(out, "out", Memory::kAny)},
                              timeout_s);
          },
          py::arg("in_"), py::arg("out"), py::arg("timeout_s") = kDefaultTimeoutS,
          "`out` of rank r becomes block r of the `in_` of rank 0, 1, ..; `size` blocks in each.")
      .def(
          "barrier",
          [target](const py::object& self, double timeout_s) {
            return target.run(self, {}, timeout_s);
          },
          py::arg("timeout_s") = kDefaultTimeoutS, "Ends when every rank has called it.");
}

template <class Class>
void bind_moves_of_a_root(Class& to, Target target) {
  namespace py = pybind11;
  to.def(
        "broadcast",
        [target](const py::object& self, const py::object& inout, int root, double timeout_s) {
          Request request{.kind = Collective::kBroadcast, .root = root};
          request.out = elements_to_write(inout, "inout", Memory::kAny);
          if (target.rank(self) == root)
            request.in = elements_to_read(inout, "inout", Memory::kAny);
          return target.run(self, std::move(request), timeout_s);
        },
        py::arg("inout"), py::kw_only(), py::arg("root"), py::arg("timeout_s") = kDefaultTimeoutS,
        "Copies the root's `inout` to that of all ranks.")
      .def(
          "gather",
          [target](const py::object& self, const py::object& in, const py::object& out, int root,
                   double timeout_s) {
            Request request{.kind = Collective::kGather, .root = root};
            request.in = elements_to_read(in, "in_", Memory::kAny);
            if (target.rank(self) == root)
              request.out = elements_to_write(out, "out", Memory::kAny);
            return target.run(self, std::move(request), timeout_s);
          },
          py::arg("in_"), py::arg("out"), py::kw_only(), py::arg("root"),
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Gathers the `in_` of rank 0, 1, .. into the root's `out`; elsewhere `out` may be None.")
      .def(
          "scatter",
          [target](const py::object& self, const py::object& in, const py::object& out, int root,
                   double timeout_s) {
            Request request{.kind = Collective::kScatter, .root = root};
            if (target.rank(self) == root) request.in = elements_to_read(in, "in_", Memory::kAny);
            request.out = elements_to_write(out, "out", Memory::kAny);
            return target.run(self, std::move(request), timeout_s);
          },
          py::arg("in_"), py::arg("out"), py::kw_only(), py::arg("root"),
          py::arg("timeout_s") = kDefaultTimeoutS,
          "`out` of rank r becomes block r of the root's `in_`, which may be None elsewhere.");
}

template <class Class>
void bind_pairs(Class& to, Target target) {
  namespace py = pybind11;
  to.def(
        "send",
        [target](const py::object& self, const py::object& in, int peer, double timeout_s) {
          return target.run(self,
                            {.kind = Collective::kSend,
                             .peer = peer,
                             .in = elements_to_read(in, "in_", Memory::kAny)},
                            timeout_s);
        },
        py::arg("in_"), py::kw_only(), py::arg("to"), py::arg("timeout_s") = kDefaultTimeoutS,
        "Sends to rank `to` alone, which calls recv; ends when it has received all. Two ranks\n"
        "that both send first wait for each other until the time-out.")
      .def(
          "recv",
          [target](const py::object& self, const py::object& out, int peer, double timeout_s) {
            return target.run(self,
                              {.kind = Collective::kRecv,
                               .peer = peer,
                               .out = elements_to_write(out, "out", Memory::kAny)},
                              timeout_s);
          },
          py::arg("out"), py::kw_only(), py::arg("from_"), py::arg("timeout_s") = kDefaultTimeoutS,
          "Receives from rank `from_` alone: as many elements of the same dtype as it sends, in\n"
          "its order.");
}

template <class Class>
void bind_collectives(Class& to, Target target) {
  bind_reductions(to, target);
  bind_moves_among_all(to, target);
  bind_moves_of_a_root(to, target);
  bind_pairs(to, target);
}

}  // namespace ffdl::python
