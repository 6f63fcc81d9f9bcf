"""Who is asking? By a token and then a session, by a header of a proxy, or by the account at the other end of the loopback."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swarm_iac.errors import Place, Refused, SwarmError
from swarm_iac.printable import printable
from swarm_iac.web.rights import Viewer

#: Tokens are random; shorter ones could be guessed. [characters]
LEAST = 32
#: The largest token file, and the longest token. [bytes]
_FILE_BYTES, _TOKEN_BYTES = 1 << 20, 512
#: A session ends so long after it began. [s]
SESSION_S = 12 * 3600
_SESSIONS = 10_000
#: Failed attempts per address, and of all together, within the window; then nobody's next one is looked at.
TRIES, _ALL_TRIES, WINDOW_S = 5, 100, 60.0
_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Tokens:
    """The people of a token file, by digest of their token."""

    people: tuple[tuple[bytes, Viewer], ...]

    def of(self, token: str) -> Viewer | None:
        """Whose token it is. Each is compared, in constant time, so the time says nothing of any."""
        given, found = _digest(token[:_TOKEN_BYTES]), None
        for known, viewer in self.people:
            if hmac.compare_digest(known, given):
                found = viewer
        return found


def tokens(path: Path) -> Tokens:
    """Read a token file: `NAME TEAM,TEAM TOKEN` or `NAME admin TOKEN`, one a line. Raises SwarmError with the line.

    Raises Refused for a file that others may read, or that belongs to another account.
    """
    try:  # no link is followed, and a pipe is not waited for
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SwarmError(f"{path}: {error.strerror}", hint="it is a regular file, and no link") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Refused(f"{path} is not a regular file")
        if about.st_mode & 0o077 or about.st_uid not in (0, os.geteuid()):
            raise Refused(f"others may read {path}, or own it", hint=f"chown to your account, and chmod 600 {path}")
        data = os.read(descriptor, _FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _FILE_BYTES:
        raise Refused(f"{path} has more than {_FILE_BYTES >> 20} MiB")
    people = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        place = Place(str(path), number, 1)
        if len(words) != 3 or not _NAME.fullmatch(words[0]):
            raise SwarmError("expected: NAME TEAM,TEAM TOKEN, or NAME admin TOKEN", place=place)
        if len(words[2]) < LEAST:
            hint = 'make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
            raise SwarmError(f"the token has fewer than {LEAST} characters", hint=hint, place=place)
        admin = words[1] == "admin"
        teams = frozenset() if admin else frozenset(words[1].split(","))
        people.append((_digest(words[2]), Viewer(words[0], teams, admin)))
    if not people:
        raise SwarmError(f"{path} has nobody in it", hint="one line for each person: NAME TEAM TOKEN")
    if len({digest for digest, _ in people}) < len(people):
        raise SwarmError(f"{path}: two people have one token")
    return Tokens(tuple(people))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


@dataclass(frozen=True)
class Proxy:
    """A header with a name that is believed where it comes from one address. `admins`: names that see everything."""

    header: str
    address: str
    admins: frozenset[str] = frozenset()

    def of(self, peer: str, values: list[str]) -> Viewer | None:
        """Whom a proxy says that it signed in; None for a connection of another, and for no name, or two."""
        if not same_address(peer, self.address) or len(values) != 1 or not _NAME.fullmatch(values[0]):
            return None
        return Viewer(values[0], admin=values[0] in self.admins)


def same_address(one: str, other: str) -> bool:
    """Are they one address? `::ffff:10.0.0.1` is the same as `10.0.0.1`."""
    try:
        first, second = (ipaddress.ip_address(text) for text in (one, other))
    except ValueError:
        return False
    mapped = [getattr(each, "ipv4_mapped", None) or each for each in (first, second)]
    return bool(mapped[0] == mapped[1])


@dataclass
class Sessions:
    """Who signed in, by the digest of a random word that only their browser has. They end with this process."""

    clock: Callable[[], float] = time.monotonic
    _known: dict[bytes, tuple[Viewer, float]] = field(default_factory=dict)

    def begin(self, viewer: Viewer) -> str:
        """A new session; the oldest one ends where there are too many."""
        while len(self._known) >= _SESSIONS:
            del self._known[next(iter(self._known))]
        word = secrets.token_urlsafe(32)
        self._known[_digest(word)] = (viewer, self.clock() + SESSION_S)
        return word

    def of(self, word: str) -> Viewer | None:
        """Whose session it is, if it has not ended."""
        found = self._known.get(_digest(word))
        return found[0] if found and found[1] > self.clock() else None

    def end(self, word: str) -> None:
        """Signed out."""
        self._known.pop(_digest(word), None)


@dataclass
class Throttle:
    """How often may somebody guess? A right token is not looked at either, so guessing beside it gains nothing."""

    clock: Callable[[], float] = time.monotonic
    _failed: dict[str, list[float]] = field(default_factory=dict)

    def waits(self, address: str) -> bool:
        """Has this address, or have all of them, failed too often of late?"""
        since = self.clock() - WINDOW_S
        self._failed = {who: kept for who, times in self._failed.items() if (kept := [at for at in times if at > since])}
        return len(self._failed.get(address, ())) >= TRIES or sum(map(len, self._failed.values())) >= _ALL_TRIES

    def failed(self, address: str) -> None:
        """One more."""
        self._failed.setdefault(address, []).append(self.clock())


@dataclass(frozen=True)
class Listen:
    """Where the page is served."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Is it reached from this machine alone?"""
        return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback


def listen(text: str) -> Listen:
    """`ADDRESS:PORT`; IPv6 in brackets. Raises SwarmError."""
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise SwarmError(
                f"{printable(text, 80)} is no ADDRESS:PORT", hint="for example 127.0.0.1:8470, or [::1]:8470"
            ) from None
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise SwarmError(f"{printable(port, 20)} is no port", hint="for example 127.0.0.1:8470")
    return Listen(host, int(port))
