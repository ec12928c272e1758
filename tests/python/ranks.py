"""Ranks for tests: processes or threads that form a world and run the same function."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import subprocess

import ffdl

SOON_S = 120.0  # a bound for hangs: two Pythons that import torch may take 10 s each


def new_world(rank, ranks):
    """Of a generation that no other process of this machine uses."""
    generation = int(os.environ.setdefault("FFDL_TEST_GENERATION", str(os.getpid())))
    return ffdl.World(generation, rank, [f"m{i}" for i in range(ranks)])


def connect(rank, ranks, url):
    return ffdl.connect_communicator(new_world(rank, ranks), ffdl.open_store(url), SOON_S)


def _run(rank, ranks, url, body, arguments):
    return body(connect(rank, ranks, url), *arguments)


def start_process(body, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=body, args=arguments)
    process.start()
    return process


def exit_code(process):
    """Of a process that should have ended by now; None where it had to be killed."""
    process.join(SOON_S)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    return code


class Launcher:
    """Stands for `ffdl run`: the processes that start meanwhile take it for their launcher."""

    def __init__(self, monkeypatch):
        self._process = subprocess.Popen(["sleep", "1000"])
        self.pid = self._process.pid
        stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        started = stat.rpartition(")")[2].split()[19]
        times = pathlib.Path("/proc/self/ns/time")
        namespaces = (os.stat("/proc/self/ns/pid").st_ino,
                      times.stat().st_ino if times.exists() else 0)
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        monkeypatch.setenv("FFDL_LAUNCHER",
                           "{}:{}:{}-{}-{}".format(self.pid, started, *namespaces, boot))

    def kill(self):
        self._process.kill()
        self._process.wait()


class Processes:
    """Four processes, which are started once."""

    def __init__(self):
        new_world(0, 1)  # they inherit the generation
        spawn = multiprocessing.get_context("spawn")
        self._pool = concurrent.futures.ProcessPoolExecutor(4, mp_context=spawn)

    def run(self, ranks, url, body, *arguments):
        """body(communicator, *arguments) at each of 2 to 4 ranks: what they return."""
        started = [
            self._pool.submit(_run, rank, ranks, url, body, arguments) for rank in range(ranks)
        ]
        return [one.result(SOON_S) for one in started]

    def end(self):
        self._pool.shutdown()


def on_threads(communicators, body):
    """body(communicator) for each, on threads of their own: what they return."""
    with concurrent.futures.ThreadPoolExecutor(len(communicators)) as pool:
        return list(pool.map(body, communicators, timeout=SOON_S))


def local_ranks(ranks):
    return ffdl.make_local_communicators(1, [f"m{i}" for i in range(ranks)])


def shared_ranks(ranks):
    """Communicators over shared memory for threads of this process."""
    store = ffdl.open_store("mem://")
    return on_threads(
        range(ranks), lambda rank: ffdl.connect_communicator(new_world(rank, ranks), store, SOON_S)
    )
