#include "ffdl/checkpoint.h"

#include <pybind11/stl.h>

#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/buffers.h"
#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/elastic/checkpoint_options.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

double number_of(const py::object& function) {
  return PyFloat_AsDouble(py::float_(function()).ptr());
}

std::string bytes_of_note(const py::object& function) {
  const py::object note = function();
  if (!py::isinstance<py::bytes>(note)) {
    PyErr_Format(PyExc_TypeError, "take a checkpoint: the note is %R; return bytes", note.ptr());
    throw py::error_already_set();
  }
  return note.cast<std::string>();
}

py::bytes as_python_bytes(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

std::string path_of(const py::object& folder) {
  return py::module_::import("os").attr("fspath")(folder).cast<std::string>();
}

Duration every_of(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) {
    raise_invalid_argument("set the times of checkpoints: 'every_s' is " + std::to_string(seconds) +
                           " s; give seconds >= 0");
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

double every_s_of(const CheckpointOptionsHandle& handle) {
  return std::chrono::duration<double>(handle.options.every).count();
}

void bind_checkpoint_options(py::module_& module) {
  using Handle = CheckpointOptionsHandle;
  const CheckpointOptions d;
  py::class_<Handle> options(module, "CheckpointOptions",
                             R"(The folder, the times and the number of checkpoints.

    session = ffdl.Session.open(
        checkpoints=ffdl.CheckpointOptions("/shared/line", every_steps=500, resume=True), ...)

folder: accessible to all members, created if absent; for one job at a time. The folder and the
times must be the same at all members.
every_steps: after each step whose number it divides; 0: not by steps.
every_s: that many seconds after the last one; 0: not by time.
at_end: Session.finish() takes one of the last step. A process that joins later then has the job's
last state.
keep_last: the number of newest ones that are kept.
keep_best: in addition, the number of those with the least metric that are kept.
metric: a function that returns a number for each checkpoint.
note: a function that returns bytes to store with it, such as a generator's state. Those of rank 0
are stored. Both functions are called inside calls of the session, on its thread.
names: of the arrays of the state, each unique; by default state.0, state.1 and so on.
resume: a job that begins takes the newest checkpoint in the folder, of any job and number of
members. Without one it takes its initial state. A job that lost all its members always takes its
own.
skip_damaged: take the next older intact one instead of raising an error.

Checkpoints are safetensors files. docs/guide/checkpoints.md; the header is ffdl/checkpoint.h.)");
  options.def(
      py::init([](const py::object& folder, uint64_t every_steps, double every_s, int keep_last,
                  int keep_best, py::object metric, py::object note, std::vector<std::string> names,
                  bool resume, bool skip_damaged, bool at_end) {
        Handle handle;
        handle.options.folder = path_of(folder);
        handle.options.every_steps = every_steps;
        handle.options.every = every_of(every_s);
        handle.options.at_end = at_end;
        handle.options.keep_last = keep_last;
        handle.options.keep_best = keep_best;
        handle.options.names = std::move(names);
        handle.options.resume = resume;
        handle.options.skip_damaged = skip_damaged;
        handle.metric = std::move(metric);
        handle.note = std::move(note);
        return handle;
      }),
      py::arg("folder"), py::kw_only(), py::arg("every_steps") = d.every_steps,
      py::arg("every_s") = 0.0, py::arg("keep_last") = d.keep_last,
      py::arg("keep_best") = d.keep_best, py::arg("metric") = py::none(),
      py::arg("note") = py::none(), py::arg("names") = d.names, py::arg("resume") = d.resume,
      py::arg("skip_damaged") = d.skip_damaged, py::arg("at_end") = d.at_end);
  options
      .def_property_readonly("folder", [](const Handle& handle) { return handle.options.folder; })
      .def_property_readonly("every_steps",
                             [](const Handle& handle) { return handle.options.every_steps; })
      .def_property_readonly("every_s", &every_s_of)
      .def_property_readonly("at_end", [](const Handle& handle) { return handle.options.at_end; })
      .def_property_readonly("keep_last",
                             [](const Handle& handle) { return handle.options.keep_last; })
      .def_property_readonly("keep_best",
                             [](const Handle& handle) { return handle.options.keep_best; })
      .def_property_readonly("names", [](const Handle& handle) { return handle.options.names; })
      .def_property_readonly("resume", [](const Handle& handle) { return handle.options.resume; })
      .def_property_readonly("skip_damaged",
                             [](const Handle& handle) { return handle.options.skip_damaged; })
      .def_readonly("metric", &Handle::metric)
      .def_readonly("note", &Handle::note);
}

void bind_checkpoint_values(py::module_& module) {
  Record<Checkpoint> checkpoint(module, "Checkpoint",
                                R"(A checkpoint that was saved or loaded.

folder: of this checkpoint.
job, lineage, generation, step: of its state. `step` is the number of steps that made the state.
metric: None if there is none.
note: the bytes stored with it.
participants: the records of a session's participants, as bytes.)");
  checkpoint.field("folder", &Checkpoint::folder)
      .field("job", &Checkpoint::job)
      .field("lineage", &Checkpoint::lineage)
      .field("generation", &Checkpoint::generation)
      .field("step", &Checkpoint::step)
      .field("metric", &Checkpoint::metric);
  checkpoint.type()
      .def_property_readonly(
          "note", [](const Checkpoint& c) { return as_python_bytes(c.note.data(), c.note.size()); })
      .def_property_readonly("participants", [](const Checkpoint& c) {
        return as_python_bytes(c.participants.data(), c.participants.size());
      });
}

}  // namespace

CheckpointOptions CheckpointFunctions::use(const CheckpointOptionsHandle& given, Raised& raised) {
  CheckpointOptions options = given.options;
  if (!given.metric.is_none()) {
    metric = given.metric;
    options.metric = [this, &raised] {
      double value = std::numeric_limits<double>::quiet_NaN();
      raised.in([&] { value = number_of(metric); });
      return value;
    };
  }
  if (!given.note.is_none()) {
    note = given.note;
    options.note = [this, &raised] {
      std::string bytes;
      raised.in([&] { bytes = bytes_of_note(note); });
      return bytes;
    };
  }
  return options;
}

void bind_checkpoint(py::module_& module) {
  bind_checkpoint_options(module);
  bind_checkpoint_values(module);
  module.def(
      "save_checkpoint",
      [](const CheckpointOptionsHandle& given, const py::object& tensors, uint64_t step,
         const std::string& job) {
        const Elements state = elements_to_read(tensors, "tensors", Memory::kAny);
        CheckpointFunctions functions;
        Raised raised;
        CheckpointOptions options = functions.use(given, raised);
        options.device = state.device;
        // Evaluated before anything is written, so that an exception leaves the folder unchanged.
        if (options.metric) options.metric = [value = options.metric()] { return value; };
        if (options.note) options.note = [bytes = options.note()] { return bytes; };
        raised.rethrow();
        return take(
            without_lock([&] { return save_checkpoint(options, state.buffers, step, job); }));
      },
      py::arg("options"), py::arg("tensors"), py::kw_only(), py::arg("step") = 0,
      py::arg("job") = "job",
      R"(Writes a checkpoint without a session, and removes old ones; returns a Checkpoint.

tensors: arrays as Session.open() takes them, each in the host's memory or in that of one GPU. They
are read after the work queued on PyTorch's current stream.
job: the job of the checkpoint; those of other jobs are left alone.

On return the whole checkpoint is on the disk. A kill before that leaves the previous ones
unchanged. The times, resume and skip_damaged are ignored. Lets other threads run. Raises
InvalidArgument, Exhausted (the disk is full), Unavailable (the file system fails), and the
exceptions of metric and note. Raises Unimplemented for arrays in a GPU's memory without a GPU,
driver or CUDA.)");
  module.def(
      "load_checkpoint",
      [](const CheckpointOptionsHandle& given, const py::object& tensors) {
        const Elements state = elements_to_write(tensors, "tensors", Memory::kAny);
        CheckpointOptions options = given.options;
        options.device = state.device;
        return take(without_lock([&] { return load_checkpoint(options, state.buffers); }));
      },
      py::arg("options"), py::arg("tensors"),
      R"(Loads the newest checkpoint in the options' folder into arrays; returns a Checkpoint.

It may have been written by any number of members, of a session or by save_checkpoint(). With
options.names the arrays may be some of the checkpoint's tensors, such as the weights without the
optimizer's state, in any order. Without names they are all of them. Every byte that is read is
checked; the arrays are undefined after an exception. They may be in a GPU's memory,
wherever the saved arrays were; there, they are ready for all streams. Lets other threads run.
Raises NotFound (there is none), Corrupt (file and byte), InvalidArgument (it holds other
tensors), Unavailable, Unimplemented (as save_checkpoint).)");
}

}  // namespace ffdl::python
