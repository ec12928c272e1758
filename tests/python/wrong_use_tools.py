"""Parts of the tables of wrong uses."""

import os
import tempfile

import numpy as np

import ffdl

ROWS = {}
SECRET = "hunter2hunter2hunter2"


def rows(area, table):
    """Enters lines of (name, exception, words, use)."""
    for name, exception, words, use in table:
        key = f"{area}_{name}"
        assert key not in ROWS, key
        ROWS[key] = (exception, (words,) if isinstance(words, str) else words, use)


def floats(count=4):
    return np.zeros(count, np.float32)


def mem():
    return ffdl.open_store("mem://")


def server(**options):
    return ffdl.ParameterServer.create(**({"parameters": 4, "learners_max": 2} | options))


def learner(**options):
    made = server(**options)
    made.start()
    attached = ffdl.Learner.attach(made)
    KEPT.append(made)
    return attached


KEPT = []  # what must outlive a use


def begun(**options):
    made = learner(**options)
    made.begin_mini_batch()
    return made


def averaging(**options):
    made = server()
    made.start()
    KEPT.append(made)
    return ffdl.AveragingLearner.attach(made, **options)


def averaging_of(rule, **options):
    made = server(rule=ffdl.UpdateRuleOptions(rule))
    made.start()
    KEPT.append(made)
    return ffdl.AveragingLearner.attach(made, **options)


def session(**options):
    weights, gradient = floats(), floats()
    given = {"state": [weights], "gradients": [gradient], "apply": lambda: None, "id": "a",
             "lease_s": 5.0, "gather_s": 0.05}
    store = options.pop("store", None) or mem()
    opened = ffdl.Session.open(store, **(given | options))
    KEPT.extend([weights, gradient, store])
    return opened


def ledger(**options):
    return ffdl.make_session_ledger(**({"samples": 16, "partition_samples": 4} | options))


def on_demand_store_ledger(**options):
    return ffdl.make_store_ledger(
        mem(), **({"id": "a", "samples": 16, "partition_samples": 4} | options))


def alone():
    return ffdl.make_local_communicators(1, ["a"])[0]


def two():
    made = ffdl.make_local_communicators(1, ["a", "b"])
    KEPT.append(made)
    return made[0]


def folder():
    return tempfile.mkdtemp(dir=os.environ["WRONG_USES_FOLDER"])


def file_of(text, name="file"):
    path = os.path.join(folder(), name)
    with open(path, "wb") as out:
        out.write(text)
    return path


def loader(**options):
    return ffdl.data.ElasticLoader(np.arange(16), **({"batch_samples": 4} | options))


def loader_of_store(data, **options):
    return ffdl.data.ElasticLoader(
        data, **({"batch_samples": 4, "order": ffdl.SampleOrder.ON_DEMAND, "store": mem(),
                  "partition_samples": 4, "id": "a"} | options))


class Raises:
    def __call__(self, *_):
        raise KeyError("of the caller")


T, I = "TypeError", "InvalidArgument"
# One of these: a build without CUDA, and one with it where there is no driver.
NO_GPU = ("build ffdl with -DFFDL_WITH_CUDA=ON", "install NVIDIA's driver")
