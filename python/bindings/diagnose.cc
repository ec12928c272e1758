#include "ffdl/diagnose.h"

#include <string>

#include "bindings.h"
#include "record.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_diagnose(py::module_& module) {
  Record<SegmentInfo>(module, "SegmentInfo", R"(One shared-memory segment of ffdl on this host.

name: without prefix and folder. kind: "parameter server", "communicator" or "unknown". bytes: of
memory held. age_s: since it was made. creator_pid: in the pid namespace of its creator. in_use: a
living process holds one of its locks. problem: why its header cannot be believed; "".)")
      .field("name", &SegmentInfo::name)
      .field("kind", &SegmentInfo::kind)
      .field("bytes", &SegmentInfo::bytes)
      .field("age_s", &SegmentInfo::age_s)
      .field("creator_pid", &SegmentInfo::creator_pid)
      .field("in_use", &SegmentInfo::in_use)
      .field("problem", &SegmentInfo::problem);
  module.def(
      "list_segments", [] { return take(list_segments()); },
      "All named segments of this host, sorted by name.");
  module.def(
      "remove_segment", [](const std::string& name) { check(remove_segment(name)); },
      py::arg("name"),
      "Removes a segment that nobody uses; its weights are gone then.\n"
      "Raises Conflict when it is in use, NotFound when there is none.");
}

}  // namespace ffdl::python
