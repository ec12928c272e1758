"""Hosts on one machine for pytest, as tests/hosts/hosts.h has them for C++.

Each has its own network, /dev/shm, host name and process numbers; a bridge joins them. They end with
the process that made them.
"""

import contextlib
import os
import shutil
import subprocess

import pytest

_KEEPER = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
os.system("mount --make-rprivate / && mount -t tmpfs -o size=1g tmpfs /dev/shm && mount -t proc proc /proc")
os.system("hostname " + sys.argv[1])
print("ready", flush=True)
signal.pause()
"""


def _check_run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)


class Hosts:
    """count hosts: host i has the addresses 10.9.0.(i + 1) on `wire`, and 10.8.0.(i + 1) on `spare`."""

    def __init__(self, count):
        self._ended = contextlib.ExitStack()
        self._bridge = self._keep("bridge")
        self._keepers = [self._keep(f"host-{i}") for i in range(count)]
        for link, network in (("wire", "10.9.0"), ("spare", "10.8.0")):
            self._in(self._bridge, "ip", "link", "add", f"br-{link}", "type", "bridge")
            self._in(self._bridge, "ip", "link", "set", f"br-{link}", "up")
            for i, keeper in enumerate(self._keepers):
                self._in(self._bridge, "ip", "link", "add", f"{link}{i}", "type", "veth", "peer",
                         "name", link, "netns", str(keeper))
                self._in(self._bridge, "ip", "link", "set", f"{link}{i}", "master", f"br-{link}", "up")
                self._in(keeper, "ip", "address", "add", f"{network}.{i + 1}/24", "dev", link)
                self._in(keeper, "ip", "link", "set", link, "up")
                self._in(keeper, "ip", "link", "set", "lo", "up")

    def _keep(self, name):
        unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        process = subprocess.Popen([*unshare, shutil.which("python3"), "-c", _KEEPER, name],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self._ended.callback(process.wait)
        self._ended.callback(process.kill)
        if process.stdout.readline() != "ready\n":
            raise OSError(f"{name} was not made")
        self._ended.callback(process.stdout.close)
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as children:
            return int(children.read().split()[0])

    @staticmethod
    def _in(keeper, *command):
        _check_run("nsenter", "--target", str(keeper), "--net", *command)

    def start(self, host, command, **options):
        """Starts a process on that host, as subprocess.Popen does."""
        enter = ["nsenter", "--target", str(self._keepers[host]), "--net", "--mount", "--uts", "--pid"]
        process = subprocess.Popen([*enter, *command], stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        self._ended.callback(process.kill)
        return process

    def end(self):
        self._ended.close()


def why_not():
    """Returns the missing requirement; empty if hosts can be made here."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    for program in ("ip", "setpriv", "unshare", "nsenter", "hostname"):
        if shutil.which(program) is None:
            return f"the program '{program}' is missing"
    try:
        _check_run("unshare", "--net", "--mount", "--uts", "--pid", "--fork", "true")
    except (subprocess.SubprocessError, OSError):
        return "namespaces are not permitted"
    return ""


@pytest.fixture
def make_hosts():
    """Makes a number of hosts, which end with the test."""
    if reason := why_not():
        pytest.skip(reason)
    with contextlib.ExitStack() as ended:
        def make(count):
            hosts = Hosts(count)
            ended.callback(hosts.end)
            return hosts

        yield make
