#include "bindings/base/argument_errors.h"

#include <pybind11/pybind11.h>

#include <string>

namespace py = pybind11;

namespace ffdl::python {
namespace {

constexpr std::string_view kShown = "\nInvoked with: ";

// pybind11 has one dispatcher for all functions of a module: since 3.1 it takes an array of
// arguments, before that a tuple and a dictionary.
using OfTuple = PyCFunctionWithKeywords;
using OfArray = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
OfTuple tuple_dispatcher = nullptr;
OfArray array_dispatcher = nullptr;

class Types {
 public:
  void add(PyObject* value) { add("", value); }
  void add(PyObject* name, PyObject* value) {
    const char* text = PyUnicode_AsUTF8(name);
    if (text == nullptr) PyErr_Clear();
    add(std::string(text == nullptr ? "?" : text) + "=", value);
  }
  const std::string& text() const { return text_; }

 private:
  void add(const std::string& name, PyObject* value) {
    text_ += (text_.empty() ? "" : ", ") + name + Py_TYPE(value)->tp_name;
  }
  std::string text_;
};

// Replaces the values in the message of a TypeError by their types.
void name_types(const Types& types) {
  py::error_scope kept;
  PyErr_NormalizeException(&kept.type, &kept.value, &kept.trace);
  if (kept.type == nullptr || kept.value == nullptr) return;
  const auto message = py::reinterpret_steal<py::object>(PyObject_Str(kept.value));
  const char* text = message ? PyUnicode_AsUTF8(message.ptr()) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return;
  }
  const std::string_view said = text;
  const size_t end = said.find(kShown);
  if (end == said.npos) return;
  const std::string told = std::string(said.substr(0, end)) +
                           "\nInvoked with types: " + types.text() +
                           "; give the types that the signature names";
  const auto arguments = py::make_tuple(told);
  PyObject_SetAttrString(kept.value, "args", arguments.ptr());
}

bool has_type_error(const PyObject* result) {
  return result == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0;
}

PyObject* dispatch_tuple(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* result = tuple_dispatcher(self, args, kwargs);
  if (!has_type_error(result)) return result;
  Types types;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) types.add(PyTuple_GET_ITEM(args, i));
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (kwargs != nullptr && PyDict_Next(kwargs, &at, &name, &value) != 0) types.add(name, value);
  name_types(types);
  return result;
}

PyObject* dispatch_array(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject* result = array_dispatcher(self, args, count, names);
  if (!has_type_error(result)) return result;
  Types types;
  const Py_ssize_t positional = PyVectorcall_NARGS(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < positional; ++i) types.add(args[i]);
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    types.add(PyTuple_GET_ITEM(names, i), args[positional + i]);
  }
  name_types(types);
  return result;
}

// Puts `own` in the place of pybind11's dispatcher. All functions of a module have the same one.
template <class Dispatcher>
void replace(PyMethodDef& definition, Dispatcher& of_pybind, Dispatcher own) {
  const auto now = reinterpret_cast<Dispatcher>(reinterpret_cast<void (*)()>(definition.ml_meth));
  if (now == own) return;
  if (of_pybind == nullptr) of_pybind = now;
  if (now != of_pybind) return;
  definition.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(own));
}

// Python's own functions share definitions with all types, and stay as they are.
bool is_of_pybind(PyObject* function) {
  PyObject* self = PyCFunction_GET_SELF(function);
  return self != nullptr &&
         std::string_view(Py_TYPE(self)->tp_name).find("pybind11_detail_function_record") !=
             std::string_view::npos;
}

void guard_function(PyObject* function) {
  if (function == nullptr) return;
  if (PyInstanceMethod_Check(function) != 0) function = PyInstanceMethod_Function(function);
  if (PyCFunction_Check(function) == 0 || !is_of_pybind(function)) return;
  PyMethodDef& definition = *reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  if (definition.ml_flags == (METH_VARARGS | METH_KEYWORDS)) {
    replace(definition, tuple_dispatcher, &dispatch_tuple);
  } else if (definition.ml_flags == (METH_FASTCALL | METH_KEYWORDS)) {
    replace(definition, array_dispatcher, &dispatch_array);
  }
}

void guard(const py::handle& object) {
  if (PyObject_TypeCheck(object.ptr(), &PyProperty_Type) != 0) {
    guard_function(py::object(object.attr("fget")).ptr());
    guard_function(py::object(object.attr("fset")).ptr());
  } else if (PyObject_TypeCheck(object.ptr(), &PyStaticMethod_Type) != 0) {
    guard_function(py::object(object.attr("__func__")).ptr());
  } else {
    guard_function(object.ptr());
  }
}

}  // namespace

void name_types_in_errors(py::module_& module) {
  for (const auto& [key, object] : py::cast<py::dict>(module.attr("__dict__"))) {
    guard(object);
    if (PyType_Check(object.ptr()) == 0) continue;
    for (const auto& member : py::list(object.attr("__dict__").attr("values")())) guard(member);
  }
}

}  // namespace ffdl::python
