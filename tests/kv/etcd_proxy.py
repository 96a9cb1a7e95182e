#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Stands before a real etcd: etcd_proxy.py PORT PORT-OF-ETCD

What the file `mode` in the working directory says, MODE [KIND], is done with each request that comes, or with those of
that kind:

  (nothing)   it is passed on
  busy        it is refused, as by an etcd that has too many
  gateway     it is refused by what stands before etcd, and not in JSON
  late        its answer comes too late
  slow        its answer comes a little later, in a stream each line after the one before
  hold        it waits until the mode is another one
  hold-answer its answer does

Kinds are the last parts of the paths (watch, range, txn, grant...), and `read` for transactions of ranges.

As Go's server may do, it loses all messages of a request but the first ones, unless that is the last one of its connection.

GET / answers with the number of requests so far.
"""
import http.client
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LATE_S = 3
SLOW_S = 0.3
FIRST_BYTES = 512
PAGE = b"<html>\r\n<head><title>503 Service Unavailable</title></head>\r\n</html>\r\n"
BUSY = b'{"error":"etcdserver: too many requests","message":"etcdserver: too many requests","code":8}'
count = 0
lock = threading.Lock()


def mode_of(kind):
    try:
        with open("mode", encoding="ascii") as f:
            mode, *kinds = f.read().split() or [""]
    except FileNotFoundError:
        return ""
    return mode if kind in (kinds or [kind]) else ""


def kind_of(path, body):
    if b'"request_range"' in body and b'"compare"' not in body:
        return "read"
    return path.split("/")[-1]


def wait_while(mode, kind):
    while mode_of(kind) == mode:
        time.sleep(0.05)


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(str(count).encode())

    def do_POST(self):
        global count
        with lock:
            count += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Connection", "") != "close":
            body = body[:body.rfind(b"\n", 0, FIRST_BYTES) + 1] or body
        kind = kind_of(self.path, body)
        mode = mode_of(kind)
        if mode == "busy":
            return self.send(BUSY, 429)
        if mode == "gateway":
            return self.send(PAGE, 503)
        if mode == "late":
            time.sleep(LATE_S)
        wait_while("hold", kind)
        try:
            self.pass_on(body, kind)
        except OSError:
            self.close_connection = True

    def pass_on(self, body, kind):
        etcd = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
        headers = {"Content-Type": "application/json", "Connection": self.headers.get("Connection", "keep-alive")}
        etcd.request("POST", self.path, body, headers)
        answer = etcd.getresponse()
        if kind != "watch":
            data = answer.read()
            time.sleep(SLOW_S if mode_of(kind) == "slow" else 0)
            wait_while("hold-answer", kind)
            return self.send(data, answer.status)
        self.send_response(answer.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while data := answer.read1(65536):
            for part in data.splitlines(True) if mode_of(kind) == "slow" else [data]:
                time.sleep(SLOW_S if mode_of(kind) == "slow" else 0)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
        self.close_connection = True


ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer.request_queue_size = 256
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Proxy).serve_forever()
