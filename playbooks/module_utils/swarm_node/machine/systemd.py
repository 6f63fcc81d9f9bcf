"""How is systemd asked and told? Unit files in which no value can break out, and answers as systemd gives them."""

from __future__ import annotations

import json
import os
import re
import string
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping

from .run import Context, NodeError

UNITS = "/etc/systemd/system"
#: What stands for itself between double quotes. Everything else is written as \\xNN, so that neither systemd's
#: quotes and escapes nor a line's end can be written from a value.
_PLAIN = frozenset(string.ascii_letters + string.digits + " !#&'()*+,-./:;<=>?@[]^_`{|}~$")
#: Nothing that systemd reads as more than itself: no quote, escape, specifier, variable, space or line's end.
_BARE = re.compile(r"[A-Za-z0-9/._:@+,-]+")
_BARE_LETTERS = frozenset(string.ascii_letters + string.digits + "/._:@+,-=")
#: Most of a journal that is told: a user's command may write lines of any length.
_JOURNAL = 2000
_SHOWN = (
    "LoadState", "ActiveState", "SubState", "Result", "InvocationID", "NeedDaemonReload", "FragmentPath", "DropInPaths",
    "DevicePolicy", "DeviceAllow", "MainPID", "ExecMainStatus", "ExecMainCode", "NRestarts", "Slice",
    "ActiveEnterTimestampMonotonic",
)  # fmt: skip


def quote(text: str) -> str:
    """One word of a unit file: in double quotes, '%' doubled (specifiers), all else that is special as bytes.

    '$' stays, so the line it stands on must not expand variables (`ExecStart=:`). NodeError for what systemd cannot
    carry: NUL and what is not Unicode.
    """
    if "\0" in text:
        raise NodeError("a NUL character cannot stand in a unit")
    _bytes(text)
    return '"' + "".join("%%" if letter == "%" else _letter(letter, _PLAIN) for letter in text) + '"'


def escaped(text: str) -> str:
    """The value of a credential (`SetCredential=`), where systemd reads escapes alone. NodeError when it is not Unicode."""
    _bytes(text)
    return "".join(_letter(letter, _BARE_LETTERS) for letter in text)


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NodeError("text that is not Unicode cannot stand in a unit") from None


def _letter(letter: str, plain: FrozenSet[str]) -> str:
    # Not by bytes above ASCII: systemd checks the line for UTF-8 before it decodes escapes.
    if letter in plain or (ord(letter) > 0xA0 and letter.isprintable()):
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())


def setting(key: str, *values: str) -> str:
    """A line KEY=VALUE … of a unit file, for keys that take no quotes. NodeError unless every letter stands for itself.

    This, `quote` and `escaped` are the only ways for a value into a unit file.
    """
    for value in values:
        if not _BARE.fullmatch(value):
            raise NodeError(f"{value[:60]!r} cannot stand in a unit, as {key}")
    return f"{key}={' '.join(values)}"


def words(argv: Iterable[str]) -> str:
    """Words of a command line, each quoted."""
    return " ".join(quote(word) for word in argv)


def show(context: Context, unit: str) -> Dict[str, str]:
    """Properties of a unit as systemd has them now. In a context that only reads, our units are asked for at once."""
    if not context.check:
        return parse(context.run(["systemctl", "show", unit, "-p", ",".join(("Id", *_SHOWN))])).get(unit, {})
    cache: Dict[str, Dict[str, str]] = context.__dict__.setdefault("units_shown", {})
    if not cache:
        ours = sorted(context.ledger.get("allocations") or {})
        stems = ["swarm-" + name.replace("-", "_") for name in ours]
        names = [stem + kind for stem in stems for kind in (".slice", ".service")] or [unit]
        cache.update(parse(context.run(["systemctl", "show", *names, "-p", ",".join(("Id", *_SHOWN))])))
    if unit not in cache:
        cache.update(parse(context.run(["systemctl", "show", unit, "-p", ",".join(("Id", *_SHOWN))])))
    return cache.get(unit, {})


def parse(text: str) -> Dict[str, Dict[str, str]]:
    """Blocks of KEY=VALUE, parted by empty lines; a key may come more than once, then its values stand on lines."""
    found: Dict[str, Dict[str, str]] = {}
    for block in text.split("\n\n"):
        values: Dict[str, str] = {}
        for line in block.splitlines():
            key, _, value = line.partition("=")
            values[key] = f"{values[key]}\n{value}" if key in values else value
        if "Id" in values:
            found[values["Id"]] = values
    return found


def exactly(context: Context, unit: str) -> Dict[str, Any]:
    """All properties of a unit with their types, over D-Bus: `show` joins words so that they cannot be told apart."""
    path = "/org/freedesktop/systemd1/unit/" + "".join(
        letter if letter.isascii() and letter.isalnum() else f"_{ord(letter):02x}" for letter in unit
    )
    call = ["busctl", "--json=short", "call", "org.freedesktop.systemd1", path]
    answer = json.loads(context.run([*call, "org.freedesktop.DBus.Properties", "GetAll", "s", ""]))
    return {name: value["data"] for name, value in answer["data"][0].items()}


def drop_ins(shown: Mapping[str, str], unit: str) -> List[str]:
    """Files that somebody hung on this unit alone."""
    return [path for path in shown.get("DropInPaths", "").split() if os.path.basename(os.path.dirname(path)) == unit + ".d"]


def settle(context: Context, unit: str, *, force: bool = False) -> Dict[str, str]:
    """Make systemd hold `unit` as our file says: drop-ins made by hand go, and it is read again when it differs.

    One that is not loaded needs nothing: it is read at its start. What `show` says of it then; nothing in check mode.
    """
    if context.check:
        return {}
    shown = show(context, unit)
    gone = [context.remove(path) for path in drop_ins(shown, unit)]
    # A slice that was used before it had a file is loaded without one, and systemd sees no need to look for it.
    elsewhere = shown.get("LoadState") == "loaded" and shown.get("FragmentPath") != f"{UNITS}/{unit}"
    if force or any(gone) or elsewhere or shown.get("NeedDaemonReload") == "yes":
        context.act(["systemctl", "daemon-reload"], timeout=120)
        return show(context, unit)
    return shown


def forget(context: Context, *units: str, force: bool = False) -> None:
    """Have systemd know nothing of the files of units, which are gone. Of what is inactive it mostly knows nothing any more, and
    a reload takes a second where much is loaded. `force`: another file has changed too."""
    if context.check:
        return
    shown = parse(context.run(["systemctl", "show", *units, "-p", "Id,ActiveState,FragmentPath"])) if not force else {}
    # A slice is loaded without a file as well.
    known = [one for one in units if shown.get(one) != {"Id": one, "ActiveState": "inactive", "FragmentPath": ""}]
    if known:
        context.act(["systemctl", "daemon-reload"], timeout=120)


def start(context: Context, unit: str) -> None:
    """Start it. NodeError with the last words of its journal."""
    try:
        context.act(["systemctl", "start", unit], timeout=120)
    except NodeError as error:
        raise NodeError(f"{error}\n{journal(context, unit)}".strip()) from None


def journal(context: Context, unit: str, lines: int = 5) -> str:
    """The last lines that the unit, or systemd about it, wrote."""
    try:
        return context.run(["journalctl", "-u", unit, "-n", str(lines), "-o", "cat", "--no-pager", "-q"]).strip()[-_JOURNAL:]
    except NodeError:
        return ""


def drop_file(context: Context, unit: str) -> bool:
    """Remove a unit's file and what people hung on it by hand. True when there was one."""
    folder = f"{UNITS}/{unit}.d"
    gone = [context.remove(f"{folder}/{name}") for name in context.names(folder)]
    return context.remove(f"{UNITS}/{unit}") or any(gone)


def ready() -> None:
    """Tell systemd, if it started this process as `Type=notify`, that it works."""
    import socket  # here: only a service needs it

    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.sendto(b"READY=1", "\0" + path[1:] if path.startswith("@") else path)
