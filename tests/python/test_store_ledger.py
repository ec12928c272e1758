"""The ledger of workers without a session, its logs and their audit, from Python."""

import threading

import numpy as np
import pytest

import ffdl

DATA = {"samples": 100, "partition_samples": 8, "epochs": 2}
PATIENT = {"lease_s": 60.0}


def join(store, id="a", **options):
    return ffdl.make_store_ledger(store, id=id, **(DATA | PATIENT | options))


def train(ledger, count=5):
    """One mini-batch: the numbers of its samples."""
    indices = ledger.sample_indices(ledger.take(count))
    ledger.commit()
    return indices.tolist()


def test_one_worker():
    ledger = join(ffdl.open_store("mem://"), shuffle=ffdl.Shuffle.SAMPLES, seed=3)
    used = []
    while not ledger.is_done:
        used += train(ledger)
    assert sorted(used) == sorted(2 * list(range(100)))
    assert used[:100] != used[100:]
    assert (ledger.epoch, ledger.taken, ledger.take(), ledger.repeated) == (2, 0, [], 0)


def test_workers_share_and_their_logs_are_audited(tmp_path):
    store = ffdl.open_store("mem://")
    used = []

    def work(id):
        log = ffdl.CommitLog.open(str(tmp_path / id), **DATA)
        ledger = join(store, id, on_stable=log.write)
        while not ledger.is_done:
            batch = train(ledger, 3)
            used.extend(batch)
            if not batch:
                ledger.wait(60)

    threads = [threading.Thread(target=work, args=(id,)) for id in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(used) == sorted(2 * list(range(100)))
    audit = ffdl.audit_commit_logs([str(tmp_path / id) for id in "abc"], complete=True)
    assert (audit.problems, audit.first_problems) == (0, [])
    assert (audit.epochs, audit.samples, audit.missing, audit.repeated) == (2, 200, 0, 0)


def test_a_dead_workers_batch_is_counted():
    store = ffdl.open_store("mem://")
    dying, other = join(store, "dying"), join(store, "other")
    train(dying)
    dying.take(5)
    del dying
    while not other.is_done:
        train(other)
    assert other.repeated == 5


def remove(store, id, other):
    """Removes a worker's key, as the end of its lease does. Then `other` removes the worker."""
    store.remove(f"ffdl/job/samples/workers/{id}")
    other.save()  # reads the store
    return train(other, 1)


def test_a_removed_worker_drops_its_batch_and_comes_back():
    store = ffdl.open_store("mem://")
    away, other = join(store, "away"), join(store, "other")
    away.take(5)
    used = remove(store, "away", other)
    for _ in range(2):
        with pytest.raises(ffdl.WorldChanged, match="drop the batch, and take the next one"):
            away.commit()
    while not away.is_done:
        used += train(away) + train(other)
    assert sorted(used) == sorted(2 * list(range(100)))
    assert away.repeated == 5


def test_a_removed_worker_whose_id_is_in_use_stays_out():
    store = ffdl.open_store("mem://")
    away, other = join(store, "away"), join(store, "other")
    away.take(5)
    remove(store, "away", other)
    successor = join(store, "away")
    with pytest.raises(ffdl.Cancelled, match="another life has begun under its id"):
        away.commit()
    train(successor)


def test_a_loader_continues_after_its_worker_was_removed():
    store = ffdl.open_store("mem://")
    other = join(store, "other", epochs=1)
    used = []
    with ffdl.data.ElasticLoader(
        np.arange(100), batch_samples=7, shuffle=ffdl.Shuffle.PARTITIONS,
        order=ffdl.SampleOrder.ON_DEMAND, partition_samples=8, store=store, id="away", **PATIENT
    ) as loader:
        is_removed = False
        while not loader.is_done:
            batch = loader.next()
            if batch is None:
                loader.ledger.wait(60)
                continue
            if not is_removed:
                is_removed = True
                used += remove(store, "away", other)
                other.leave()
            try:
                loader.ledger.commit()
            except ffdl.WorldChanged:
                continue
            used += np.asarray(batch).tolist()
        assert loader.ledger.repeated == 7
    assert sorted(used) == list(range(100))


def test_a_restart_goes_on_from_a_checkpoint():
    store = ffdl.open_store("mem://")
    old = join(store)
    train(old, 8)
    saved = old.save()
    train(old, 8)
    told = []
    anew = join(store, lineage=2, from_=saved, on_stable=told.append)
    assert anew.committed == 8
    train(anew, 8)
    assert {step.lineage for step in told} == {2}
    old.take(5)
    with pytest.raises(ffdl.Cancelled, match="larger lineage of the job has begun"):
        old.commit()
    with pytest.raises(ffdl.InvalidArgument, match="use a larger lineage"):
        join(store, "b", lineage=2, from_=anew.save())


def test_what_on_stable_raises_comes_out():
    def fail(step):
        raise KeyError(step.step)

    ledger = join(ffdl.open_store("mem://"), on_stable=fail)
    ledger.take(5)
    with pytest.raises(KeyError):
        ledger.commit()


def test_waiting_and_leaving():
    store = ffdl.open_store("mem://")
    holder = join(store, "holder", samples=8)
    holder.take()
    waiting = join(store, "waiting", samples=8)
    assert waiting.take(2) == []
    with pytest.raises(ffdl.Timeout):
        waiting.wait(0)
    holder.leave()
    waiting.wait(10)
    assert len(waiting.take(2)) == 1
    with pytest.raises(ffdl.Cancelled, match="has left"):
        holder.take()
    with pytest.raises(ffdl.InvalidArgument, match="not a valid name"):
        join(store, "a/b")


def test_a_loader_over_a_store():
    store = ffdl.open_store("mem://")
    data = np.arange(100)
    loaders = [
        ffdl.data.ElasticLoader(
            data, batch_samples=7, epochs=2, order=ffdl.SampleOrder.ON_DEMAND, partition_samples=8,
            store=store, id=id, num_workers=workers, **PATIENT)
        for id, workers in (("a", 0), ("b", 1))]
    used = []
    while not all(loader.is_done for loader in loaders):
        for loader in loaders:
            batch = loader.next()
            if batch is not None:
                used += np.asarray(batch).tolist()
                loader.ledger.commit()
    for loader in loaders:
        loader.close()
    assert sorted(used) == sorted(2 * list(range(100)))
    with pytest.raises(ffdl.InvalidArgument, match="ON_DEMAND"):
        ffdl.data.ElasticLoader(data, batch_samples=7, store=store, id="c")


def test_a_loader_over_a_store_goes_on_from_a_checkpoint():
    store, data = ffdl.open_store("mem://"), np.arange(100)
    options = {
        "batch_samples": 7, "order": ffdl.SampleOrder.ON_DEMAND, "partition_samples": 8,
        "store": store} | PATIENT
    used = []

    def train(loader):
        if (batch := loader.next()) is not None:
            used.extend(np.asarray(batch).tolist())
            loader.ledger.commit()

    with ffdl.data.ElasticLoader(data, id="a", **options) as loader:
        for _ in range(5):
            train(loader)
        state, at_checkpoint = loader.state_dict(), list(used)
        train(loader)
        with pytest.raises(ffdl.InvalidArgument, match="lineage= and from_="):
            loader.load_state_dict(state)
    used = at_checkpoint
    loaders = [
        ffdl.data.ElasticLoader(data, id=id, lineage=2, from_=state["ledger"], **options)
        for id in "ab"]  # one more than before
    while not loaders[0].is_done:
        for loader in loaders:
            train(loader)
    assert sorted(used) == list(range(100))
