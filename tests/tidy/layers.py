"""Who may include whom: docs/ARCHITECTURE.md explains the picture, this is the same as data."""

# Module -> internal libraries whose src/<m>/ headers it may include. Its own are always allowed.
INTERNAL = {
    "base": (),
    "shm": ("base",),
    "net": ("base",),
    "wire": ("base",),
    "store": ("base", "net", "wire"),
    "ps": ("base", "shm"),
    "membership": ("base", "wire"),
    "data": ("base", "shm", "wire"),
    "comm": ("base", "shm"),
    "elastic": ("base", "wire"),
    "launch": ("base",),
    "plan": ("base",),
    "pool": ("base", "wire"),
    "jobs": ("base", "wire"),
    "observe": ("base",),
    "cli": (),
    # A folder of its own beside src/: all that names CUDA, and the stub in its place.
    "cuda": ("base", "comm", "ps"),
}

# Module -> modules that it knows only through their public headers.
PUBLIC = {
    "membership": ("store",),
    "data": ("store",),
    "comm": ("store",),
    "elastic": ("store", "membership", "comm"),
    "launch": ("store", "membership"),
    "pool": ("store", "membership", "launch"),
    "jobs": ("store", "plan", "launch"),
}

# Public header -> the module that defines what it declares.
HEADERS = {
    "export.h": "base",
    "log.h": "base",
    "runtime.h": "base",
    "step_participant.h": "base",
    "status.h": "base",
    "types.h": "base",
    "version.h": "base",
    "diagnose.h": "shm",
    "shared_memory.h": "shm",
    "averaging_learner.h": "ps",
    "learner.h": "ps",
    "memory_placement.h": "ps",
    "parameter_server.h": "ps",
    "sparse_gradient.h": "ps",
    "update_rule.h": "ps",
    "store.h": "store",
    "store_server.h": "store",
    "membership.h": "membership",
    "job_status.h": "membership",
    "launch_environment.h": "membership",
    "communicator.h": "comm",
    "micro_batch_sum.h": "comm",
    "operation.h": "comm",
    "operation_queue.h": "comm",
    "listener.h": "comm",
    "commit_log.h": "data",
    "data_pipeline.h": "data",
    "data_source.h": "data",
    "partition_ledger.h": "data",
    "checkpoint.h": "elastic",
    "session.h": "elastic",
    "batch_rule.h": "elastic",
    "gradient_noise.h": "elastic",
    "straggler_watch.h": "elastic",
    "elastic_policy.h": "elastic",
    "autoscaler.h": "jobs",
    "cluster_simulator.h": "plan",
    "job_planner.h": "plan",
    "job_scheduler.h": "plan",
    "plan_files.h": "plan",
    "scaling_model.h": "plan",
    "synthetic_workload.h": "plan",
    "elastic_pool.h": "pool",
    "observe.h": "observe",
    "launcher.h": "launch",
    "supervisor.h": "launch",
    "job_guardian.h": "jobs",
}

# Folders that see a user's headers only, whatever they build.
USERS = ("src/cli", "examples", "benchmarks", "python/bindings", "tests/install")

# First part of a third-party include -> the folders (or files) that may name it.
THIRD_PARTY = {
    "fmt": ("src", "tests", "examples", "benchmarks"),
    "hwy": ("src", "tests"),
    "xxhash.h": ("src/base", "src/shm", "src/ps", "src/store", "src/comm", "src/data", "src/elastic", "tests"),
    "asio.hpp": ("src/net", "tests/net"),
    "asio": ("src/net", "tests/net"),
    "openssl": ("src/net",),
    "google": ("src/wire",),
    "httplib.h": ("src/store/etcd_http.cc", "src/observe"),
    "nlohmann": ("src/store/etcd_messages.cc", "src/membership/records.cc", "src/launch/records.cc",
                 "src/jobs/records.cc",
                 "src/data", "src/elastic", "src/plan", "src/cli",
                 "examples", "benchmarks", "tests"),
    "yaml-cpp": ("src/plan", "src/jobs"),
    "zstd.h": ("src/data",),
    "hwloc.h": ("src/ps",),
    "gloo": ("src/comm/gloo_links.cc",),
    "cuda_runtime.h": ("cuda",),
    "cuda_runtime_api.h": ("cuda",),
    "prometheus": ("src/observe",),
    "grpcpp": ("src/pool",),
    "CLI": ("src/cli", "tests/cli", "examples", "benchmarks"),
    "pybind11": ("python/bindings",),
    "Eigen": ("examples", "benchmarks"),
    "zlib.h": ("examples", "benchmarks", "tests"),
    "gtest": ("tests",),
    "gmock": ("tests",),
    "benchmark": ("benchmarks",),
    "mpi.h": ("benchmarks/peers",),
    "oneapi": ("benchmarks/peers",),
}

# First parts of includes that belong to the system.
SYSTEM = ("sys", "linux", "asm", "arpa", "net", "netinet", "bits", "sanitizer")
