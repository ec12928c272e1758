#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "ffdl/ps/parameter_server.h"

namespace ffdl::python {

// The contents of a Python ParameterServer. The destructor waits for threads, so it releases the
// interpreter lock.
struct ServerHandle {
  explicit ServerHandle(std::unique_ptr<ParameterServer> opened) : server(std::move(opened)) {}
  ~ServerHandle() {
    pybind11::gil_scoped_release others_may_run;
    server.reset();
  }
  ServerHandle(const ServerHandle&) = delete;
  ServerHandle& operator=(const ServerHandle&) = delete;

  std::unique_ptr<ParameterServer> server;
  bool busy = false;
};

}  // namespace ffdl::python
