"""Is each workload well, asked of itself? All at once, each with an end; what it answers can cost nobody else anything."""

from __future__ import annotations

import re
import socket
import time
from typing import Any, Callable, Dict

#: Most that is read of an answer; its first line is all that counts. [bytes]
_MOST = 4096
#: What may stand in a request's line; the rest is written as %XX.
_SAFE = "/?&=%:@!$'()*+,;~._-"


def status(port: int, path: str, timeout: float) -> int:
    """The status with which http://127.0.0.1:PORT/PATH answers, within `timeout` in all. [s]

    ValueError for what is no HTTP, OSError for no answer. A redirect is not followed: whom this program asks, as root,
    is not for a workload to say.
    """
    from urllib.parse import quote

    end = time.monotonic() + timeout
    asked = (
        f"GET {quote(path.split('#', maxsplit=1)[0], safe=_SAFE)} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: swarm\r\n"
    )
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout) as line:
        line.sendall(f"{asked}Accept-Encoding: identity\r\nConnection: close\r\n\r\n".encode())
        while b"\n" not in answer and len(answer) < _MOST:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer within {timeout:g} s")
            line.settimeout(left)
            piece = line.recv(_MOST)
            if not piece:
                break
            answer += piece
    found = re.match(rb"HTTP/[0-9]\.[0-9] +([0-9]{3})(?=[ \r\n])", answer)
    if not found:
        raise ValueError(f"what answers is no HTTP: {answer[:40]!r}")
    return int(found[1])


def ask(checks: Dict[str, Callable[[float], str]], seconds: float) -> Dict[str, str]:
    """Of each allocation: healthy, starting (its check says no) or unknown (no answer within `seconds`, or none that counts).

    A check takes how long it may last [s] and answers "" for well, else why not. All run at the same time, so that a
    slow one costs the others nothing.
    """
    import threading

    end, found = time.monotonic() + seconds, dict.fromkeys(checks, "unknown")

    def one(name: str, check: Callable[[float], str]) -> None:
        try:
            problem = check(seconds)
        except Exception:  # whatever a workload brings about stays with it
            return
        if time.monotonic() < end:
            found[name] = "starting" if problem else "healthy"

    # They may outlast us: a daemon is not waited for at the end of this program.
    threads: Any = [threading.Thread(target=one, args=item, daemon=True) for item in checks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(found)
