#include "ffdl/diagnose.h"

#include <string>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_diagnose(py::module_& module) {
  Record<SegmentInfo>(module, "SegmentInfo", R"(One shared-memory segment of ffdl on this host.

name: without prefix and folder.
kind: "parameter server", "communicator" or "unknown".
bytes: of memory held.
age_s: since its creation.
creator_pid: in the pid namespace of its creator.
in_use: a live process holds one of its locks.
is_own: False for a segment of another user.
problem: the reason why no more is known; "" if there is none.)")
      .field("name", &SegmentInfo::name)
      .field("kind", &SegmentInfo::kind)
      .field("bytes", &SegmentInfo::bytes)
      .field("age_s", &SegmentInfo::age_s)
      .field("creator_pid", &SegmentInfo::creator_pid)
      .field("in_use", &SegmentInfo::in_use)
      .field("is_own", &SegmentInfo::is_own)
      .field("problem", &SegmentInfo::problem);
  module.def(
      "list_segments", [] { return take(list_segments()); },
      "Returns all named segments of this host, sorted by name.");
  module.def(
      "remove_segment", [](const std::string& name) { check(remove_segment(name)); },
      py::arg("name"),
      "Removes a segment that no process uses; its weights are lost. Raises Conflict when it\n"
      "is in use, NotFound when there is none.");
  module.def(
      "printable", [](const py::bytes& text) { return printable(std::string(text)); },
      py::arg("text"), "Converts bytes as the next overload converts text.");
  module.def(
      "printable", [](const std::string& text) { return printable(text); }, py::arg("text"),
      "Returns text of other processes in a form for terminals: control characters become\n"
      "escapes.");
}

}  // namespace ffdl::python
