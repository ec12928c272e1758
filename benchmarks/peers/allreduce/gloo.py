"""PyTorch's gloo: torch.distributed.all_reduce between processes of one thread each.

usage: gloo RANKS FOLDER; the ranks meet in FOLDER, which is empty, and is removed.
       gloo RANKS FOLDER RANK INTERFACE; one rank, whose host reaches the others by INTERFACE. Rank
       0 reads the turns and sends them through the group.
"""

import os
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing

BYTES_MAX = 100 << 20
WARM_UPS = 2


class Member:
    def __init__(self, rank, ranks, folder, interface="lo"):
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
        )
        self._rank = rank
        self._values = torch.ones(BYTES_MAX // 4)

    @torch.inference_mode()
    def take_turn(self, line):
        """Returns the seconds of the timed part, and the first and the last value of the result."""
        count, size = map(int, line.split())
        if count < 1 or size < 4 or size > BYTES_MAX or size % 4 != 0:
            raise SystemExit(f"serve '{line}': not COUNT BYTES with at most {BYTES_MAX} bytes")
        values = self._values[: size // 4]
        self._repeat(WARM_UPS, values)
        begin = time.perf_counter()
        self._repeat(count, values)
        seconds = time.perf_counter() - begin
        return seconds, values[0].item(), values[-1].item()

    def _repeat(self, times, values):
        for _ in range(times):
            values.fill_(self._rank + 1)
            torch.distributed.all_reduce(values)


def checked_turn(member, ranks, line):
    seconds, first, last = member.take_turn(line)
    wanted = ranks * (ranks + 1) / 2
    if (first, last) != (wanted, wanted):
        raise SystemExit(f"check '{line.strip()}': first {first}, last {last}, not {wanted}")
    return seconds


def follow(rank, ranks, folder, commands):
    member = Member(rank, ranks, folder)
    while True:
        try:
            line = commands.recv()
        except EOFError:
            break
        member.take_turn(line)
    torch.distributed.destroy_process_group()


def lead(ranks, folder):
    context = torch.multiprocessing.get_context("spawn")
    followers = []
    for rank in range(1, ranks):
        theirs, ours = context.Pipe(duplex=False)
        process = context.Process(target=follow, args=(rank, ranks, folder, theirs), daemon=True)
        process.start()
        theirs.close()
        followers.append((process, ours))
    member = Member(0, ranks, folder)
    print("ready", flush=True)
    for line in sys.stdin:
        for _, commands in followers:
            commands.send(line)
        print(checked_turn(member, ranks, line), flush=True)
    for process, commands in followers:
        commands.close()
        process.join()
    torch.distributed.destroy_process_group()


def play(rank, ranks, folder, interface):
    member = Member(rank, ranks, folder, interface)
    if rank == 0:
        print("ready", flush=True)
    while True:
        turn = [sys.stdin.readline() if rank == 0 else None]
        torch.distributed.broadcast_object_list(turn)
        if not turn[0]:
            break
        seconds = checked_turn(member, ranks, turn[0])
        if rank == 0:
            print(seconds, flush=True)
    torch.distributed.destroy_process_group()


def main():
    ranks, folder = int(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        return play(int(sys.argv[3]), ranks, folder, sys.argv[4])
    try:
        lead(ranks, folder)
    finally:
        store = os.path.join(folder, "store")
        if os.path.exists(store):
            os.unlink(store)
        os.rmdir(folder)


if __name__ == "__main__":
    main()
