"""Elastic training by plain Ray actors: no launcher, and three more arguments of elastic().

    python examples/12_ray.py --workers 2 --kill-at 500

Needs PyTorch and ray. The driver serves the store in which the workers find each other. Ray starts
a worker again that has died, and it joins the others.
"""

import argparse
import json
import tempfile
import zlib

import ray
import torch

import ffdl


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="[%(default)s]")
    parser.add_argument("--min-workers", type=int, default=1,
                        help="wait while there are fewer [%(default)s]")
    parser.add_argument("--steps", type=int, default=2000, help="[%(default)s]")
    parser.add_argument("--kill-at", type=int,
                        help="a step at which the first worker is killed, to see the others go on")
    return parser.parse_args()


@ray.remote(num_cpus=0.5, max_restarts=-1, max_task_retries=-1, max_concurrency=2)
class Worker:
    """Trains; asked from outside, it tells its step."""

    def __init__(self, name, url, secret):
        self._name = name
        self._url = url
        self._secret = secret
        self._step = 0

    def train(self, steps, min_workers):
        import ffdl.data
        import ffdl.torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        x = torch.randn(64, 4)
        dataset = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        loader = ffdl.data.ElasticLoader(
            dataset, batch_samples=16, micro_batch_samples=4, steps=steps)
        try:
            trainer = ffdl.torch.elastic(
                model, optimizer, loader, micro_batch_samples=4, lease_s=5, min_workers=min_workers,
                store=ffdl.open_store(self._url, secret=self._secret), id=self._name, job="ray")
        except ffdl.JobDone:  # the others were faster than the new start of this worker
            return {"worker": self._name, "finished": None}
        for inputs, wanted in trainer.batches():
            torch.nn.functional.mse_loss(model(inputs), wanted).backward()
            trainer.step()
            self._step = trainer.step_number
        weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
        return {"worker": self._name, "finished": trainer.step_number, "main": trainer.is_main,
                "weights": zlib.crc32(weights)}

    def step(self):
        return self._step


def main():
    arguments = parse_arguments()
    ray.init(include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        # On several hosts: address="HOST:0", a name of this one that the others can reach, and
        # secret= in place of makes_secret.
        server = ffdl.StoreServer.start(folder=folder, makes_secret=True)
        workers = [Worker.remote(f"worker-{number}", server.url(), server.secret())
                   for number in range(arguments.workers)]
        ends = [worker.train.remote(arguments.steps, arguments.min_workers)
                for worker in workers]
        if arguments.kill_at is not None:
            while ray.get(workers[0].step.remote()) < arguments.kill_at:
                pass
            ray.kill(workers[0], no_restart=False)
            print(json.dumps({"killed": "worker-0"}), flush=True)
        for end in ray.get(ends):
            print(json.dumps(end), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
