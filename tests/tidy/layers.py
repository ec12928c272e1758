"""The allowed includes, as data: docs/internals/architecture.md explains the picture."""

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
    "comm": ("base", "shm", "net"),
    "elastic": ("base", "wire"),
    "launch": ("base", "net", "wire"),
    "cluster": ("base", "wire"),
    "scaling": ("base", "wire"),
    # The command is built with the library; these modules have things that it alone uses.
    "cli": ("base", "launch", "cluster", "scaling"),
    # A folder of its own beside src/: all that names CUDA, and the stub in its place.
    "cuda": ("base", "comm", "ps"),
}

# Module -> modules that it knows only through their public headers.
PUBLIC = {
    "membership": ("store",),
    "data": ("store", "ps"),
    "comm": ("store",),
    "elastic": ("store", "membership", "comm"),
    "launch": ("store", "membership"),
    "cluster": ("store", "launch"),
    "scaling": ("store", "launch", "elastic", "cluster"),
}

# Module -> wing -> the wings of that module whose headers it may include, each without a circle. Headers
# beside the wings know no wing and are for all of them; sources beside them know all.
WINGS = {
    "cluster": {"plan": (), "simulator": ("plan",), "autoscaler": ()},
    "comm": {
        "operation": (),
        "reduce": ("operation",),
        "shm": ("operation", "reduce"),
        "network": ("operation", "reduce"),
        "gpu": ("operation", "reduce", "shm"),
        "api": ("operation", "reduce", "shm", "network", "gpu"),
    },
    "data": {
        "order": (),
        "formats": ("order",),
        "ledger": ("order", "formats"),
        "pipeline": ("formats",),
        "ring": ("formats",),
    },
    "elastic": {
        "state": (),
        "checkpoint": ("state",),
        "step": ("state", "checkpoint"),
        "participants": ("state", "step"),
        "session": ("state", "checkpoint", "step"),
    },
    "ps": {
        "rules": (),
        "segment": ("rules",),
        "server": ("rules", "segment"),
        "learner": ("rules", "segment", "server"),
    },
    "store": {"local": (), "tcp": ("local",), "etcd": ("local",)},
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
    "comm/shared_memory.h": "shm",
    "ps/averaging_learner.h": "ps",
    "ps/learner.h": "ps",
    "ps/parameter_server.h": "ps",
    "ps/update_rule.h": "ps",
    "store.h": "store",
    "membership.h": "membership",
    "launch/environment.h": "membership",
    "comm/communicator.h": "comm",
    "comm/micro_batch_sum.h": "comm",
    "comm/operation_queue.h": "comm",
    "comm/all_reduce_subscriber.h": "comm",
    "data/batch_ring.h": "data",
    "data/commit_log.h": "data",
    "data/data_pipeline.h": "data",
    "data/data_source.h": "data",
    "data/sample_batch.h": "data",
    "data/sample_ledger.h": "data",
    "checkpoint.h": "elastic",
    "session.h": "elastic",
    "tuning/batch_size.h": "elastic",
    "tuning/gradient_noise.h": "elastic",
    "tuning/stragglers.h": "scaling",
    "tuning/step_metrics.h": "scaling",
    "scaling/elastic_policy.h": "scaling",
    "cluster/autoscaler.h": "cluster",
    "cluster/job_planner.h": "cluster",
    "cluster/step_measurement.h": "cluster",
    "launch/running_job.h": "launch",
}

# Folders that see a user's headers only, whatever they build.
USERS = ("src/cli", "examples", "benchmarks", "python/bindings", "tests/install")

# File or folder of a user -> the internal modules that it may include all the same, and the reason.
USERS_SEE = {
    "benchmarks/bench_plan.cc": (("cluster",), "times the simulator, which `ffdl simulate` uses"),
    "benchmarks/plan": (("cluster", "launch"), "compares live jobs under a Supervisor of its own "
                        "process with the simulator's prediction of them"),
}

# First part of a third-party include -> the folders (or files) that may name it.
THIRD_PARTY = {
    "fmt": ("src", "tests", "examples", "benchmarks"),
    "hwy": ("src", "tests"),
    "xxhash.h": ("src/base", "src/shm", "src/ps", "src/store", "src/comm", "src/data", "src/elastic", "tests"),
    "asio.hpp": ("src/net", "tests/net"),
    "asio": ("src/net", "tests/net"),
    "openssl": ("src/net", "src/data/formats/digest.cc", "tests/net"),
    "google": ("src/wire",),
    "httplib.h": ("src/store/etcd/http.cc",),
    "nlohmann": ("src/wire/json_record.h", "src/store/etcd/messages.cc", "src/scaling/policy_file.cc",
                 "src/scaling/job_profile.cc",
                 "src/data/formats", "src/elastic/checkpoint/safetensors.cc", "src/cli", "examples",
                 "benchmarks", "tests"),
    "archive.h": ("src/data/formats/unpack.cc", "tests/data"),
    "archive_entry.h": ("src/data/formats/unpack.cc", "tests/data"),
    "yaml-cpp": ("src/cluster", "src/scaling"),
    "hwloc.h": ("src/ps",),
    "gloo": ("src/comm/network/gloo_links.cc",),
    "cuda.h": ("cuda",),
    "cuda_runtime.h": ("cuda",),
    "cuda_runtime_api.h": ("cuda", "examples/nlc/device"),
    "cublas_v2.h": ("tests/examples/nlc_device_interface_test.cc",),
    "cudnn.h": ("tests/examples/nlc_device_interface_test.cc",),
    "nccl.h": ("tests/comm/gpu/nccl/interface_test.cc",),
    "CLI": ("src/cli", "tests/cli", "examples", "benchmarks"),
    "pybind11": ("python/bindings",),
    "torch": ("examples/libtorch",),
    "Eigen": ("examples", "benchmarks"),
    "zlib.h": ("src/data/formats/gunzip.cc", "examples", "benchmarks", "tests"),
    "gtest": ("tests",),
    "gmock": ("tests",),
    "benchmark": ("benchmarks",),
    "mpi.h": ("benchmarks/peers",),
    "oneapi": ("benchmarks/peers",),
}

# First parts of includes that belong to the system.
SYSTEM = ("sys", "linux", "asm", "arpa", "net", "netinet", "bits", "sanitizer")
