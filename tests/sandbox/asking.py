"""How is NVML asked by an expression, on the stand-in as on a real card?"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

_PREAMBLE = """
import ctypes, json, os, sys
import pynvml as n
def attempt(call, *args):
    try:
        return call(*args)
    except n.NVMLError as error:
        return f"error {error.value}"
def profile(kind):
    found = attempt(n.nvmlDeviceGetGpuInstanceProfileInfo, gpu(0), kind, 1)
    return found if isinstance(found, str) else [found.id, found.sliceCount, found.instanceCount, found.memorySizeMB]
def placements(number):
    found, count = (n.c_nvmlGpuInstancePlacement_t * 16)(), ctypes.c_uint(16)
    error = attempt(n.nvmlDeviceGetGpuInstancePossiblePlacements, gpu(0), number, found, ctypes.byref(count))
    return error if isinstance(error, str) else [[one.start, one.size] for one in list(found)[: count.value]]
n.nvmlInit()
if len(sys.argv) > 2:
    os.seteuid(int(sys.argv[2]))
gpu = lambda i: n.nvmlDeviceGetHandleByIndex(i)
print(json.dumps(eval(sys.argv[1])))
"""


def ask(expression: str, environment: Mapping[str, str], user: int | None = None) -> object:
    """The value of `expression`, where `n` is pynvml, `gpu(i)` a handle, `attempt` catches NVML's errors;
    `profile(kind)` and `placements(number)` ask for MIG profiles. In a process of its own, so that nothing is kept."""
    done = subprocess.run(
        [sys.executable, "-c", _PREAMBLE, expression, *([str(user)] if user else [])],
        env={**environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
