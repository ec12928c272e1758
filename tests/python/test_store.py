"""The store from Python: keys, revisions, waiting and leases, over three back ends."""

import base64
import http.server
import json
import threading

import pytest

import ffdl

SOON_S = 120.0  # a bound for hangs


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


class ForeignEtcd(http.server.BaseHTTPRequestHandler):
    """Answers as an etcd in which another program has put a key that is not UTF-8."""

    protocol_version = "HTTP/1.1"

    def answer(self, body):
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer({"etcdserver": "3.5.0", "etcdcluster": "3.5.0"})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        kv = {"key": base64.b64encode(b"bad\xff\x00").decode(), "value": "djE=", "mod_revision": "2",
              "create_revision": "2", "version": "1"}
        self.answer({"header": {"revision": "2"}, "kvs": [kv], "count": "1"})

    def log_message(self, *_):
        pass


def test_a_key_of_others_that_is_not_utf8_breaks_no_listing():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ForeignEtcd)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        store = ffdl.open_store(f"etcd://127.0.0.1:{server.server_port}")
        assert [(e.key, e.value) for e in store.list("")] == [("bad\\xff\x00", b"v1")]
        del store
    finally:
        server.shutdown()
        server.server_close()


def test_a_store_that_is_found_by_its_folder_has_a_secret(tmp_path):
    server = ffdl.StoreServer.start(folder=f"{tmp_path}/store", makes_secret=True)
    secret = server.secret()
    assert len(secret) == 64
    with pytest.raises(ffdl.InvalidArgument, match="another secret"):
        ffdl.open_store(server.url())
    ffdl.open_store(server.url(), secret=secret).put("key", "value")
    assert ffdl.open_store(f"tcp://{tmp_path}/store").get("key").value == b"value"
    assert (tmp_path / "store" / "secret").stat().st_mode & 0o777 == 0o600


def test_text_of_other_processes_is_shown_without_controls():
    assert ffdl.printable("wor\x1b[2Jker\n") == "wor\\x1b[2Jker\\n"
    assert ffdl.printable(b"\xff\xe2\x82\xac") == "\\xff€"
