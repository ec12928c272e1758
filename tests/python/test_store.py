"""The store from Python: keys, revisions, waiting and leases, over three back ends."""

import threading

import pytest

import ffdl

SOON_S = 20.0


@pytest.fixture(params=["mem", "file", "tcp"])
def store(request, tmp_path):
    if request.param != "tcp":
        yield ffdl.open_store("mem://" if request.param == "mem" else f"file://{tmp_path}/store")
        return
    server = ffdl.StoreServer.start(folder=f"{tmp_path}/store", secret="of the job")
    yield ffdl.open_store(server.url(), secret="of the job")


def test_what_is_put_is_got(store):
    revision = store.put("a/1", b"\x00\xff")
    entry = store.get("a/1")
    assert (entry.key, entry.value, entry.revision, entry.lease) == ("a/1", b"\x00\xff", revision, 0)
    assert store.put("a/2", "text") > revision
    assert [e.value for e in store.list("a/")] == [b"\x00\xff", b"text"]
    store.remove("a/1")
    store.remove("a/1")
    assert [e.key for e in store.list("")] == ["a/2"]
    with pytest.raises(ffdl.NotFound):
        store.get("a/1")


def test_a_store_server_is_for_those_who_know_its_secret(tmp_path):
    server = ffdl.StoreServer.start(folder=f"{tmp_path}/store", secret="of the job")
    assert server.url().startswith("tcp://127.0.0.1:")
    with pytest.raises(ffdl.InvalidArgument, match="secret"):
        ffdl.open_store(server.url(), secret="another").list("")
    with pytest.raises(ffdl.Conflict):
        ffdl.StoreServer.start(folder=f"{tmp_path}/store", secret="of the job")
    with pytest.raises(ffdl.InvalidArgument, match="secret"):
        ffdl.StoreServer.start(folder=f"{tmp_path}/other", address="0.0.0.0:0")


def test_compare_and_put_takes_only_what_was_seen(store):
    revision = store.compare_and_put("key", 0, "first")
    with pytest.raises(ffdl.Conflict):
        store.compare_and_put("key", 0, "second")
    assert store.compare_and_put("key", revision, "second") > revision
    assert store.get("key").value == b"second"


def test_a_change_wakes_who_waits_for_it(store):
    seen = store.wait_change("a/", 0)
    with pytest.raises(ffdl.Timeout):
        store.wait_change("a/", seen, 0.15)
    later = threading.Timer(0.15, lambda: store.put("a/x", "now"))
    later.start()
    assert store.wait_change("a/", seen, SOON_S) > seen
    later.join()
    assert store.get("a/x").value == b"now"


def test_a_key_goes_with_its_lease(store):
    lease = store.grant_lease(3600)
    store.put("key", "value", lease)
    assert store.get("key").lease == lease
    store.keep_alive(lease)
    store.end_lease(lease)
    assert store.list("") == []
    with pytest.raises(ffdl.NotFound):
        store.keep_alive(lease)
    with pytest.raises(ffdl.NotFound):
        store.put("key", "value", lease)
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ffdl.InvalidArgument, match="ttl_s"):
            store.grant_lease(wrong)


def test_a_url_names_a_back_end():
    with pytest.raises(ffdl.InvalidArgument):
        ffdl.open_store("nowhere://")
