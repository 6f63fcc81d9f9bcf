"""The exporter's two processes, and what a process has used."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def process(code: str, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Python that runs `code` until the end of the block."""
    started = subprocess.Popen([sys.executable, "-c", code], env={**environment}, stdout=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextlib.contextmanager
def exporter(root: str, files: str, environment: Mapping[str, str]) -> Iterator[tuple[int, int, int]]:
    """(pid of the sampler, pid of the server, port) of an exporter of the machine under `root`, whose samples lie in `files`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    sampler = f"from swarm_node.exporter.sampler import sample; sample({root!r}, {files!r})"
    server = f"from swarm_node.exporter.server import serve; serve({port}, [], {files!r}, {root!r})"
    with process(sampler, environment) as one, process(server, environment) as other:
        yield one.pid, other.pid, port


def scrape(port: int) -> tuple[str, float]:
    """What the server answers, and how long it took. [s]"""
    began = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return page, time.monotonic() - began


def cpu(pid: int) -> float:
    """Its CPU time, and that of the commands that it waited for. [s]"""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Its memory. [MB]"""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000
