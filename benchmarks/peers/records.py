"""Small records through Python.

usage: records.py read|start FILE BATCH

FILE: of records of 256 bytes. read: answers each line with the seconds of an epoch in batches, each
committed and every byte read. start: one line, with the milliseconds from the end of the imports to
the first batch.
"""

import sys
import time

import numpy as np

import ffdl

BEGIN = time.perf_counter()
RECORD_BYTES = 256


def open_loader(path, batch):
    return ffdl.data.ElasticLoader(
        ffdl.open_records([path], record_bytes=RECORD_BYTES), batch_samples=batch, epochs=0,
        partition_samples=4096, order=ffdl.SampleOrder.ON_DEMAND,
        store=ffdl.open_store("mem://"), id="reader")


def sum_of(records):
    return int(records.view(np.uint64).sum())


def read_epoch(loader):
    total = 0
    epoch = loader.ledger.epoch
    while loader.ledger.epoch == epoch:
        total += sum_of(loader.next())
        loader.ledger.commit()
    return total % 2**64


def main():
    kind, path, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if kind == "start":
        sum_of(open_loader(path, batch).next())
        took_ms = 1e3 * (time.perf_counter() - BEGIN)
        print("ready", flush=True)
        sys.stdin.readline()
        print(took_ms, flush=True)
        return
    loader = open_loader(path, batch)
    expected = sum_of(np.fromfile(path, np.uint8))
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        total = read_epoch(loader)
        took = time.perf_counter() - begin
        if total != expected:
            raise RuntimeError(f"the records of an epoch have the sum {total}, not {expected}")
        print(took, flush=True)


if __name__ == "__main__":
    main()
