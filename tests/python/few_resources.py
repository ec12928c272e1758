"""Uses parts of ffdl in forked children that have few descriptors, threads or little memory.

A communicator has a second member, in a process of its own that is not limited.

few_resources.py PART LIMIT VALUE...: prints a line "VALUE OUTCOME" for each child: "works", the name
of the exception and its message, "signal N", "hangs", or "exit N" and the end of its stderr.
"""

import contextlib
import os
import pathlib
import resource
import signal
import sys
import tempfile
import time

import numpy as np

import ffdl

CHILD_S = 60.0  # of a busy machine; longer is a hang
PEER_S = 60.0  # a member waits for the other
OTHER_USER = 65534


# Marks a body that calls start() itself, where its limited part begins.
def starts_itself(body):
    body.starts_itself = True
    return body


def serve_store(folder):
    ffdl.StoreServer.start(folder=folder)


# The server is in another process: one without descriptors answers nobody.
@starts_itself
def use_store(folder, start):
    reader, told = os.pipe()

    def serve():
        server = ffdl.StoreServer.start(folder=folder)
        os.write(told, server.url().encode())
        signal.pause()

    with in_process(serve):
        os.close(told)
        url = os.read(reader, 200).decode()
        os.close(reader)
        assert url, "there is no server"
        start()
        store = ffdl.open_store(url)
        store.put("key", b"value")
        assert store.get("key").value == b"value"


def learn(folder):
    server = ffdl.ParameterServer.create(
        parameters=1000, rule=ffdl.UpdateRuleOptions("sgd", learning_rate=1.0)
    )
    server.start()
    learner = ffdl.Learner.attach(server, 20.0)
    learner.start_push(np.ones(1000, np.float32), (0, 0, 1))
    learner.finish_push(20.0)
    learner.detach(20.0)
    server.stop()


def train(folder):
    weights, gradient = np.zeros(4, np.float32), np.ones(4, np.float32)
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[weights], gradients=gradient,
        apply=lambda: None, lease_s=15.0, gather_s=0.05,
    )
    session.end_step(1)
    session.finish()


@starts_itself
def hand_out(folder, start):
    path = os.path.join(folder, "rows.npy")
    np.save(path, np.arange(300, dtype=np.float32).reshape(100, 3))
    start()
    numbers = ffdl.open_npy([path])
    ring = ffdl.BatchRing.create(numbers.format, slots=2, slot_bytes=1 << 16)
    consumer = ffdl.BatchConsumer.attach(ring.place)
    ring.put(numbers.read([7, 3]), indices=[7, 3], ranges=[(0, 5, 7)])
    consumer.next()


def reduce(rank, folder, backend):
    world = ffdl.World(os.getppid() if rank else os.getpid(), rank, ["m0", "m1"])
    store = ffdl.open_store(f"file://{folder}/store")
    member = ffdl.connect_communicator(world, store, PEER_S, backend=backend)
    values = np.full(100, rank + 1, np.float32)
    member.all_reduce(values, timeout_s=PEER_S)
    assert values.tolist() == [3.0] * 100


def reduce_over(backend):
    @starts_itself
    def part(folder, start):
        with in_process(lambda: reduce(1, folder, backend)):
            start()
            reduce(0, folder, backend)

    return part


@contextlib.contextmanager
def in_process(body):
    child = os.fork()
    if child == 0:
        signal.alarm(int(2 * PEER_S))
        with contextlib.suppress(Exception):
            body()
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


PARTS = {
    "store": serve_store, "client": use_store, "server": learn, "session": train, "ring": hand_out,
    "shm": reduce_over(ffdl.Backend.SHM), "tcp": reduce_over(ffdl.Backend.TCP),
    "gloo": reduce_over(ffdl.Backend.GLOO),
}
LIMITS = {
    "descriptors": resource.RLIMIT_NOFILE,
    "threads": resource.RLIMIT_NPROC,
    "memory_mib": resource.RLIMIT_AS,
}


def become_other_user():
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)


def limit(what, value):
    if what == "memory_mib":
        with open("/proc/self/statm") as file:
            value = (value << 20) + int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(LIMITS[what], (value, value))


def use(part, what, value, folder, report):
    try:
        if what == "threads":  # root has no limit of them
            become_other_user()
        mine = os.path.join(folder, "mine")  # of this user alone
        os.mkdir(mine, 0o700)
        body = PARTS[part]
        if getattr(body, "starts_itself", False):
            body(mine, lambda: limit(what, value))
        else:
            limit(what, value)
            body(mine)
        outcome = "works"
    except Exception as failure:
        outcome = f"{type(failure).__name__}: {failure}"
    os.write(report, outcome.encode())
    os._exit(0)


def last_lines(path):
    return pathlib.Path(path).read_text(errors="replace").splitlines()[-5:]


def outcome_of(part, what, value):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        reader, report = os.pipe()
        child = os.fork()
        errors = os.path.join(folder, "stderr")
        if child == 0:
            os.setpgid(0, 0)
            os.close(reader)
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
            use(part, what, value, folder, report)
        os.close(report)
        deadline = time.monotonic() + CHILD_S
        ended, state = os.waitpid(child, os.WNOHANG)
        while ended == 0 and time.monotonic() < deadline:
            time.sleep(0.002)
            ended, state = os.waitpid(child, os.WNOHANG)
        if ended == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # one that dies leaves its other process
        with os.fdopen(reader) as file:
            told = file.read()
        if ended == 0:
            return "hangs"
        if os.WIFSIGNALED(state):
            return f"signal {os.WTERMSIG(state)}"
        if told:
            return told
        return f"exit {os.WEXITSTATUS(state)}: {' '.join(last_lines(errors))}"


if __name__ == "__main__":
    for text in sys.argv[3:]:
        print(text, outcome_of(sys.argv[1], sys.argv[2], int(text)), flush=True)
