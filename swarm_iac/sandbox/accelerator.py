"""Can this host run the nodes on its own processor (KVM), or must they be emulated (TCG)?

A nested host may offer /dev/kvm and then hang, so KVM counts only once a kernel has really booted under it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import time
from pathlib import Path

from swarm_iac.sandbox.image import Image

_PROBE_SECONDS = 12
_READ_TSC = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl rdx,32; or rax,rdx; ret


def _boots_under_kvm(image: Image) -> bool:
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    command = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-M", "q35", "-m", "256M", "-nodefaults"]
    command += ["-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", str(image.kernel)]
    command += ["-initrd", str(image.initrd), "-append", "console=ttyS0 quiet probe panic=-1"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return False
    return b"PROBE-OK" in done.stdout


def chosen(image: Image, remembered: Path) -> str:
    """`kvm` or `tcg`; the answer is kept in the file `remembered`."""
    if remembered.exists():
        return remembered.read_text().strip()
    answer = "kvm" if _boots_under_kvm(image) else "tcg"
    remembered.write_text(answer + "\n")
    return answer


def tsc_khz() -> int | None:
    """The rate of this processor's time stamp counter [kHz], or None where it cannot be read.

    TCG passes the host's counter to the guest; knowing its rate, the guest need not calibrate it against an emulated
    timer, which fails on a busy host.
    """
    if platform.machine() != "x86_64":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(_READ_TSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    rates: list[int] = []
    for _ in range(5):
        ticks, begin = read(), time.monotonic_ns()
        time.sleep(0.02)
        rates.append((int(read()) - int(ticks)) * 1_000_000 // (time.monotonic_ns() - begin))
    return sorted(rates)[2]
