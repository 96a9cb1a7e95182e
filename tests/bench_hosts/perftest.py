#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""perftest and idle-qps of the stand-in hosts: perftest.py PROGRAM [-p PORT] [...] [SERVER]"""
import socket
import sys
import time

program, words = sys.argv[1], sys.argv[2:]
if "--version" in words:
    print("stand-in 1")
    sys.exit()
port = int(words[words.index("-p") + 1])
client = words[-1] == "127.0.0.1"
if client:
    for _ in range(400):  # as idle-qps does
        try:
            peer = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
else:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    peer = listener.accept()[0]
    listener.close()
if program == "idle-qps":
    print("5 connected", flush=True)
if program == "idle-qps" or "--run_infinitely" in words:
    if client:
        time.sleep(86400)
    peer.recv(1)
elif client:
    for i in range(int(words[words.index("-n") + 1])):
        print(f"{i + 1}, {10 + i % 7 / 10}")
