#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

namespace ffdl::python {

// Shows a struct of values as a Python class with read-only attributes and a repr of all of them.
// Record<LearnerStats>(module, "LearnerStats", "doc").field("waits", &LearnerStats::waits);
template <class T>
class Record {
 public:
  Record(pybind11::module_& module, const char* name, const char* doc) : class_(module, name, doc) {
    class_.attr("_fields") = fields_;
    class_.def("__repr__", [name = std::string(name), fields = fields_](pybind11::object self) {
      std::string text;
      for (const pybind11::handle field : fields) {
        if (!text.empty()) text += ", ";
        text +=
            field.cast<std::string>() + "=" + pybind11::repr(self.attr(field)).cast<std::string>();
      }
      return name + "(" + text + ")";
    });
  }

  // Returns the class, to add members that a struct of values lacks, such as constructors.
  pybind11::class_<T>& type() { return class_; }

  template <class Member>
  Record& field(const char* name, Member T::* member) {
    class_.def_readonly(name, member);
    fields_.append(name);
    return *this;
  }

 private:
  pybind11::class_<T> class_;
  pybind11::list fields_;
};

}  // namespace ffdl::python
