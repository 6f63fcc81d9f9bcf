"""Runs on a node: ten times a second, who is alive with which GPUs, and does the service answer? A line of JSON each.

It knows nothing of the product but the variables that every workload finds in its environment. Debian's Python.
"""

import json
import os
import socket
import sys
import time


def alive():
    """Allocation → [GPUs, pids] of every process that carries one, from the kernel's own view of its environment; and
    allocation → its part of a GPU, where it has no whole ones."""
    found, shares = {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat("/proc/%s" % name).st_uid == 0:
                continue  # what systemd runs around a stop has the same environment; a workload is never root
            with open("/proc/%s/environ" % name, "rb") as file:
                text = file.read()
        except OSError:
            continue
        if b"SWARM_ALLOCATION=" not in text:
            continue
        values = dict(part.split(b"=", 1) for part in text.split(b"\0") if b"=" in part)
        gpus = values.get(b"SWARM_GPUS", b"-1").decode()
        allocation = values[b"SWARM_ALLOCATION"].decode()
        found.setdefault(allocation, [gpus, []])[1].append(int(name))
        if b"SWARM_GPU_SHARE" in values:
            shares[allocation] = float(values[b"SWARM_GPU_SHARE"])
    return found, shares


def answers(port):
    """Does the service on this node answer a request?"""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def main(path, port):
    with open(path, "w") as file:
        while True:
            begin = time.time()
            found, shares = alive()
            line = {"t": begin, "alive": found, "shares": shares, "web": answers(port)}
            file.write(json.dumps(line) + "\n")
            file.flush()
            time.sleep(min(0.1, max(0.0, 0.1 - (time.time() - begin))))  # the clock may jump


main(sys.argv[1], int(sys.argv[2]))
