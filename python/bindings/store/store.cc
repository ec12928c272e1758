#include "ffdl/store.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// An Entry with a value that is bytes in Python, too.
struct EntryOfBytes {
  py::str key;
  py::bytes value;
  Revision revision = 0;
  LeaseId lease = kNoLease;
};

EntryOfBytes with_bytes(const Entry& entry) {
  // An etcd may hold foreign keys that are not UTF-8. They must not break a listing.
  auto key = py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(
      entry.key.data(), static_cast<Py_ssize_t>(entry.key.size()), "backslashreplace"));
  return {std::move(key), py::bytes(entry.value), entry.revision, entry.lease};
}

void bind_values(py::class_<Store>& store) {
  store
      .def(
          "get",
          [](Store& s, const std::string& key) {
            return with_bytes(take(without_lock([&] { return s.get(key); })));
          },
          py::arg("key"), "Returns the Entry of a key. Raises NotFound.")
      .def(
          "list",
          [](Store& s, const std::string& prefix) {
            std::vector<EntryOfBytes> entries;
            for (const Entry& entry : take(without_lock([&] { return s.list(prefix); }))) {
              entries.push_back(with_bytes(entry));
            }
            return entries;
          },
          py::arg("prefix"),
          "Returns all entries whose keys begin with `prefix`, by key, as they were at one\n"
          "instant.")
      .def(
          "put",
          [](Store& s, const std::string& key, const std::string& value, LeaseId lease) {
            return take(without_lock([&] { return s.put(key, value, lease); }));
          },
          py::arg("key"), py::arg("value"), py::arg("lease") = kNoLease,
          "Sets a key to `value` (str or bytes); returns the revision. Raises NotFound when the\n"
          "lease has ended.")
      .def(
          "compare_and_put",
          [](Store& s, const std::string& key, Revision expected, const std::string& value,
             LeaseId lease) {
            return take(
                without_lock([&] { return s.compare_and_put(key, expected, value, lease); }));
          },
          py::arg("key"), py::arg("expected"), py::arg("value"), py::arg("lease") = kNoLease,
          "put(), only if the key's revision is `expected`; 0: only if the key is absent.\n"
          "Raises Conflict (it is another; nothing happened), NotFound (the lease has ended).")
      .def(
          "remove",
          [](Store& s, const std::string& key) {
            check(without_lock([&] { return s.remove(key); }));
          },
          py::arg("key"), "Makes the key absent, also if it was absent before.");
}

void bind_waiting(py::class_<Store>& store) {
  store
      .def(
          "wait_change",
          [](Store& s, const std::string& prefix, Revision after, double timeout_s) {
            return take(wait(
                timeout_s, [&](Time deadline) { return s.wait_change(prefix, after, deadline); }));
          },
          py::arg("prefix"), py::arg("after"), py::arg("timeout_s") = kDefaultTimeoutS,
          R"(Waits until a key under `prefix` has changed after revision `after`.

Returns the store's newest revision, the start of the next wait; 0 returns at once. Then read the
keys with list(). Raises Timeout.)")
      .def(
          "grant_lease",
          [](Store& s, double ttl_s) {
            if (!(ttl_s > 0 && ttl_s < 1e9)) {
              raise_invalid_argument("grant a lease: 'ttl_s' is " + std::to_string(ttl_s) +
                                     " s; give seconds > 0");
            }
            const auto ttl =
                std::chrono::duration_cast<Duration>(std::chrono::duration<double>(ttl_s));
            return take(without_lock([&] { return s.grant_lease(ttl); }));
          },
          py::arg("ttl_s"),
          "Grants a lease that ends `ttl_s` seconds after it was granted or last kept alive, and\n"
          "its keys with it.")
      .def(
          "keep_alive",
          [](Store& s, LeaseId lease) { check(without_lock([&] { return s.keep_alive(lease); })); },
          py::arg("lease"),
          "Renews the lease. Raises NotFound: it has ended, and its keys\n"
          "are gone.")
      .def(
          "end_lease",
          [](Store& s, LeaseId lease) { check(without_lock([&] { return s.end_lease(lease); })); },
          py::arg("lease"), "Ends the lease now, also if it had ended before.");
}

// The contents of a Python StoreServer. The destructor waits for its thread.
struct StoreServerHandle {
  explicit StoreServerHandle(std::unique_ptr<StoreServer> started) : server(std::move(started)) {}
  ~StoreServerHandle() {
    py::gil_scoped_release others_may_run;
    server.reset();
  }
  StoreServerHandle(const StoreServerHandle&) = delete;
  StoreServerHandle& operator=(const StoreServerHandle&) = delete;

  std::unique_ptr<StoreServer> server;
};

void bind_store_server(py::module_& module) {
  const StoreServerOptions defaults;
  py::class_<StoreServerHandle>(module, "StoreServer",
                                R"(Serves a Store to other processes and hosts while it lives.

It has one thread of its own. The header is ffdl/store.h.)")
      .def_static(
          "start",
          [](std::string folder, std::string address, std::string secret, bool makes_secret) {
            return std::make_unique<StoreServerHandle>(take(without_lock([&] {
              return StoreServer::start({.folder = std::move(folder),
                                         .address = std::move(address),
                                         .secret = std::move(secret),
                                         .makes_secret = makes_secret});
            })));
          },
          py::kw_only(), py::arg("folder"), py::arg("address") = defaults.address,
          py::arg("secret") = defaults.secret, py::arg("makes_secret") = defaults.makes_secret,
          R"(folder: of the store's log; created if it is absent.
address: host:port to listen at; port 0 is any free one.
secret: the key to the store; needed if other hosts can reach the address.
makes_secret: without a secret, a new store gets 32 random bytes of its own. They are in a file of
the folder that only its owner can read. open_store("tcp://" + folder) reads them there.
Raises InvalidArgument (no such address; no secret where one is needed) and Conflict (another
process serves the folder). Raises Corrupt (the log), Unavailable (the folder or the port),
Exhausted.)")
      .def(
          "url", [](const StoreServerHandle& handle) { return handle.server->url(); },
          "For open_store().")
      .def(
          "secret", [](const StoreServerHandle& handle) { return handle.server->secret(); },
          "For open_store() by that URL; \"\" if there is none.");
}

}  // namespace

void bind_store(py::module_& module) {
  Record<EntryOfBytes>(module, "Entry",
                       "One key of a Store. value: bytes; revision: of the change that put it;\n"
                       "lease: 0 for none.")
      .field("key", &EntryOfBytes::key)
      .field("value", &EntryOfBytes::value)
      .field("revision", &EntryOfBytes::revision)
      .field("lease", &EntryOfBytes::lease);
  py::class_<Store> store(module, "Store",
                          R"(Keys with revisions and leases, shared by the members of a job.

For control records, not for data. All methods from any thread. Every method raises Unavailable
(the back end does not answer), Corrupt, and InvalidArgument (a key or value that is too long). The
header is ffdl/store.h.)");
  bind_values(store);
  bind_waiting(store);
  bind_store_server(module);
  module.def(
      "open_store",
      [](const std::string& url, std::string secret) {
        return take(without_lock(
            [&] { return open_store(url, system_runtime(), {.secret = std::move(secret)}); }));
      },
      py::arg("url"), py::kw_only(), py::arg("secret") = StoreOptions{}.secret,
      R"(The Store at a URL.

    mem://            in this object alone, for the threads of one process
    file:///a/folder  for the processes of one host
    tcp://host:port   served by a StoreServer with that `secret`
    tcp:///a/folder   for the processes of one host and user, with a secret of its own there
    etcd://host:port  an etcd server, in a build that has it

Raises InvalidArgument (no such URL, another secret), Unavailable (no such folder, no answer),
Unimplemented (etcd:// in a build without it).)");
}

}  // namespace ffdl::python
