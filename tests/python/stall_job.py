"""A job of workers that a test stops and kills."""

import pathlib

import elastic_jobs
import ffdl
from elastic_jobs import records, wait_for

WORKER = pathlib.Path(__file__).with_name("stall_worker.py")
STEPS = 10


def steps(log):
    return [record["step"] for record in records(log) if "step" in record]


def last_step(log):
    return steps(log)[-1] if steps(log) else 0


def size_of(log):
    sizes = [record["size"] for record in records(log) if "size" in record]
    return sizes[-1] if sizes else 0


class StallJob:
    """Its store is served by the process of the test, which is never stopped."""

    def __init__(self, folder, fence_after_s):
        self._folder = folder
        self._end = folder / "end"
        self._server = elastic_jobs.serve_store(folder)
        self.job = elastic_jobs.Job(
            folder, WORKER, self._end, folder / "log", fence_after_s,
            more={"FFDL_STORE": self._server.url()})
        self.logs = {}  # of the present lives, by number
        self._all_logs = []

    def start(self, number):
        self.logs[number] = self.job.start(number)
        self._all_logs.append(self.logs[number])
        return self.logs[number]

    def kill(self, number):
        self.job.kill(number)
        del self.logs[number]

    def start_all(self, workers=2):
        logs = [self.start(number) for number in range(workers)]
        self.wait_for_all()
        return logs

    def wait_for_all(self):
        """Waits until all train together, and have trained on."""
        before = {number: last_step(log) for number, log in self.logs.items()}
        wait_for(lambda: all(size_of(log) == len(self.logs) and
                             last_step(log) > before[number] + STEPS
                             for number, log in self.logs.items()), "all train together")

    def end(self):
        """All have the same last state, each sample counts once, and nobody began from nothing."""
        self._end.touch()
        for worker in self.logs:
            self.job.wait(worker)
        all_records = [record for log in self._all_logs for record in records(log)]
        assert not [record for record in all_records if "anew" in record]
        assert len({(record["last"], record["state"])
                    for record in all_records if "last" in record}) == 1
        audit = ffdl.audit_commit_logs([str(path) for path in self._folder.glob("log.*.commits")])
        assert not audit.problems, audit.first_problems
        return audit
