#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Many connections to a shift-kvd: crowd.py SOCKET JOB NUMBER hello|silent

Prints "connected"; then, whenever that changes, how many connections have been ended and the last error that came.
Ends with its standard input.
"""
import os
import select
import socket
import struct
import sys

KV_HELLO, KV_ERROR, KV_VERSION = 1, 10, 2


def frame(kind, fields):
    return struct.pack("<IB", 1 + len(fields), kind) + fields


def hello(job, nonce):
    return frame(KV_HELLO, struct.pack("<HH", KV_VERSION, len(job)) + job + struct.pack("<QI", nonce, os.getpid()))


def errors(data):
    """The texts of the ERROR frames in data."""
    while len(data) >= 5:
        size, kind = struct.unpack_from("<IB", data)
        if kind == KV_ERROR:
            code, length = struct.unpack_from("<HH", data, 5)
            yield f"error {code} {data[9:9 + length].decode()}"
        data = data[4 + size:]


def main(path, job, number, what):
    poll = select.poll()
    poll.register(0, select.POLLIN)
    crowd, heard = {}, {}
    for n in range(int(number)):
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        if what == "hello":
            s.sendall(hello(job.encode(), 0x1000 + n))
        crowd[s.fileno()] = s
        heard[s.fileno()] = b""
        poll.register(s, select.POLLIN)
    print("connected", flush=True)
    ended, last = 0, ""
    while True:
        before = ended
        for fd, _ in poll.poll():
            data = os.read(fd, 65536) if fd == 0 else crowd[fd].recv(65536)
            if fd == 0 and not data:
                return
            if fd == 0:
                continue
            heard[fd] += data
            if not data:
                poll.unregister(fd)
                crowd.pop(fd).close()
                ended += 1
                last = ([last] + list(errors(heard[fd])))[-1]
        if ended != before:
            print(f"ended {ended} {last}", flush=True)


main(*sys.argv[1:])
