#include "ffdl/comm/shared_memory.h"

#include <pybind11/numpy.h>

#include <memory>
#include <string>

#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/shm/shared_memory.h"

namespace py = pybind11;

namespace ffdl::python {

std::shared_ptr<SharedMemory> memory_behind(const py::object& given) {
  py::object owner = given;
  while (py::isinstance<py::array>(owner)) owner = owner.attr("base");
  if (!py::isinstance<SharedMemory>(owner)) {
    raise_invalid_argument(
        "register memory: there is no SharedMemory behind it; make the array with "
        "ffdl.shared_array(shape, dtype)");
  }
  auto memory = owner.cast<std::shared_ptr<SharedMemory>>();
  if (!py::isinstance<py::array>(given)) return memory;
  const auto array = py::reinterpret_borrow<py::array>(given);
  const auto bytes = static_cast<uint64_t>(array.nbytes());
  if (array.data() != memory->data() || bytes != memory->bytes() ||
      (array.flags() & py::array::c_style) == 0) {
    raise_invalid_argument("register memory: an array of " + std::to_string(bytes) +
                           " bytes that is not the whole of its " +
                           std::to_string(memory->bytes()) +
                           " bytes of SharedMemory; register the whole array");
  }
  return memory;
}

void bind_shared_memory(py::module_& module) {
  py::class_<SharedMemory, std::shared_ptr<SharedMemory>>(
      module, "SharedMemory", py::buffer_protocol(),
      R"(Memory that a communicator can share with other processes of this host.

ffdl.shared_array() makes arrays of it. bytes: its size. It has no name and is freed with the
last process that uses it. The header is ffdl/comm/shared_memory.h.)")
      .def_static(
          "allocate",
          [](uint64_t bytes) {
            return take(without_lock([&] { return SharedMemory::allocate(bytes); }));
          },
          py::arg("bytes"),
          "Zeroed, on a page of its own. Raises Exhausted (no room), InvalidArgument (0 bytes).")
      .def_property_readonly("bytes", &SharedMemory::bytes)
      .def_buffer([](SharedMemory& memory) {
        return py::buffer_info(reinterpret_cast<uint8_t*>(memory.data()),
                               static_cast<py::ssize_t>(memory.bytes()));
      });
}

}  // namespace ffdl::python
