#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""An etcd that is broken, or against us: hostile_etcd.py PORT

The endpoint http://127.0.0.1:PORT/MODE does what the JSON gateway does, but for one thing, after which the mode is
named. GET /MODE answers with the number of requests that it has had.
"""
import base64
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BIGGEST = str(2**63 - 1)
STREAM_SECONDS = 60
counts = {}
lock = threading.Lock()


def b64(data):
    return base64.b64encode(data).decode()


def key_value(key, value=b"v", revision="5"):
    return {"key": b64(key), "value": b64(value), "mod_revision": revision}


def header(mode):
    return {} if mode == "no-revision" else {"revision": BIGGEST if mode == "biggest-revision" else "9"}


def job_prefix(request):
    return b"/".join(base64.b64decode(request["key"]).split(b"/")[:4]) + b"/"


class Etcd(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def send_line(self, result):
        self.send_chunk(json.dumps({"result": result}).encode() + b"\n")

    def do_GET(self):
        mode = self.path.split("/")[1]
        self.send(str(counts.get(mode, 0)).encode())

    def do_POST(self):
        lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
        body = [json.loads(line) for line in lines] or [{}]
        _, mode, path = self.path.split("/", 2)
        with lock:
            counts[mode] = counts.get(mode, 0) + 1
        try:
            self.answer(mode, path, body[0], body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, mode, path, body, messages):
        if mode == "no-json":
            return self.send(b"<html>\x1b]0;owned\x07 welcome to the wrong port</html>")
        if mode == "wrong-types":
            return self.send(b'{"header": [1], "ID": {"a": 1}, "result": 7, "succeeded": "yes", "responses": '
                             b'[[null], 3], "kvs": {"key": 1}, "more": 1}\n')
        if mode == "deep":
            return self.send(b'{"a":' * 100000)
        if mode == "endless":
            self.begin_stream()
            while True:
                self.send_chunk(b"x" * 65536)
        if mode == "escape":
            text = "\x1b[2J\x1b]0;owned\x07\x9b31mhello\r\nsecond line"
            return self.send(json.dumps({"error": text, "message": text, "code": 2}).encode(), 500)
        if mode == "fields" and path != "v3/kv/txn":
            return self.send(b"{}")
        if path == "v3/lease/grant":
            ids = {"lease-0": "0", "lease-negative": "-7", "lease-text": "many"}
            lease = body["ID"] if body.get("ID", "0") != "0" else ids.get(mode, "4711")
            if mode == "granted-gone":
                gone = {"ID": lease, "TTL": "0"}
                return self.send(json.dumps({"header": header(mode), **gone, "result": gone}).encode())
            return self.send(json.dumps({"header": header(mode), "ID": lease, "TTL": BIGGEST}).encode())
        if path == "v3/lease/keepalive":
            ttl = {"ttl-0": "0", "ttl-negative": "-1"}.get(mode, BIGGEST)
            return self.send(json.dumps({"result": {"ID": body.get("ID"), "TTL": ttl}}).encode() + b"\n")
        if path == "v3/kv/txn":
            return self.send(json.dumps(self.transaction(mode, body)).encode())
        if path == "v3/kv/range":
            return self.send(json.dumps(self.range(mode, body)).encode())
        if path == "v3/watch":
            return self.watch(mode, [m["create_request"] for m in messages])
        self.send(b"{}")

    def transaction(self, mode, body):
        ranges = [op["request_range"] for op in body.get("success", []) if "request_range" in op]
        if ranges and not body.get("compare"):
            return {"header": header(mode), "succeeded": True,
                    "responses": [{"response_range": self.range(mode, r)} for r in ranges]}
        puts = [op["request_put"] for op in body.get("success", []) if "request_put" in op]
        if mode == "lost-lease" and not body.get("compare"):
            return {"error": "etcdserver: requested lease not found", "code": 5}
        value = puts[0]["value"] if puts else b64(b"")
        found = {"response_range": {"kvs": [{"key": puts[0]["key"] if puts else "", "value": value}]}}
        return {"header": header(mode), "succeeded": True, "responses": [{"response_put": {}}, found]}

    def range(self, mode, body):
        prefix = job_prefix(body)
        if mode == "compacted-page" and "revision" in body:
            return {"error": "etcdserver: mvcc: required revision has been compacted", "code": 11}
        kvs = {
            "compacted-page": [key_value(prefix + b"k")],
            "short-key": [key_value(b"/s")],
            "empty-key": [key_value(b"")],
            "foreign-key": [key_value(b"/other/key/of/somebody")],
            "huge-key": [key_value(prefix + b"k" * 100000, b"v" * 100000)],
            "control-key": [key_value(prefix + b"\x1b[2J\0x")],
            "same-page": [key_value(prefix + b"dead/a")],
            "bad-base64": [{"key": "\u00e9\u00e9", "value": "====", "mod_revision": "1"}],
        }.get(mode, [])
        more = mode in ("same-page", "empty-page", "compacted-page")
        return {"header": header(mode), "kvs": kvs, "more": more}

    def watch(self, mode, requests):
        prefix = job_prefix(requests[0])
        events = {
            "short-event": [{"kv": key_value(b"/")}],
            "foreign-event": [{"kv": key_value(b"/other/key/of/somebody")}],
            "no-event": [{}, None, 3],
            "key-deleted": [{"type": "DELETE", "kv": key_value(prefix + b"job-key")}],
            "biggest-event": [{"kv": key_value(prefix + b"k", revision=BIGGEST)}],
        }.get(mode)
        self.begin_stream()
        if mode == "compacted":
            return self.send_line({"canceled": True, "compact_revision": "3"})
        for _ in requests:
            self.send_line({"created": True})
        for r in [r for r in requests if mode == "always-compacted" and "range_end" in r]:
            self.send_line({"canceled": True, "watch_id": r["watch_id"], "compact_revision": BIGGEST})
        if events:
            self.send_line({"events": events})
        end = time.time() + STREAM_SECONDS
        while time.time() < end:
            if mode == "chatter":
                self.send_line({"created": True})
            else:
                time.sleep(0.2)


ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer.request_queue_size = 256
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Etcd).serve_forever()
