"""How does a store of usage lie on disk, and how is it opened? One SQLite file, in write-ahead mode, for its owner alone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from swarm_iac.errors import Refused, Retryable, SwarmError

#: "swrm": what tells such a file from another program's database.
APPLICATION = 0x7377726D
VERSION = 1
#: No pass is later than this. [s since 1970]
LATEST = 1 << 33
DAMAGED = "the store is damaged: it holds what swarm usage never writes"
REPAIR = "restore it from a copy, or name another: --store"
#: How long a reader waits for a writer that has just begun. [s]
_PATIENCE = 10.0

_SUMS = """
CREATE TABLE node_{per} (
  {per} INTEGER NOT NULL, node INTEGER NOT NULL REFERENCES node, model TEXT NOT NULL,
  capacity INTEGER NOT NULL, unallocated INTEGER NOT NULL, off INTEGER NOT NULL, unknown INTEGER NOT NULL,
  PRIMARY KEY ({per}, node, model)) WITHOUT ROWID;
CREATE TABLE held_{per} (
  {per} INTEGER NOT NULL, node INTEGER NOT NULL REFERENCES node, account INTEGER NOT NULL REFERENCES account,
  held INTEGER NOT NULL, used INTEGER NOT NULL, unknown INTEGER NOT NULL, seconds INTEGER NOT NULL,
  bandwidth INTEGER NOT NULL, bandwidth_known INTEGER NOT NULL, cpus INTEGER NOT NULL, cpus_known INTEGER NOT NULL,
  peak INTEGER NOT NULL,
  CHECK (used >= 0 AND unknown >= 0 AND used + unknown <= held),
  PRIMARY KEY ({per}, node, account)) WITHOUT ROWID;
"""
#: Amounts in GPU-ms, times in seconds, hours and days since 1970 (UTC). Days hold the sums of their hours, so that months are
#: read quickly. `last_…` is the last pass; `…_span` is from when to when: what a node was, and who held which card.
_TABLES = f"""
CREATE TABLE clock (stack TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE in_force (stack TEXT NOT NULL, since INTEGER NOT NULL, commit_name TEXT NOT NULL,
  PRIMARY KEY (stack, since)) WITHOUT ROWID;
CREATE TABLE node (id INTEGER PRIMARY KEY, stack TEXT NOT NULL, name TEXT NOT NULL, occupied INTEGER NOT NULL DEFAULT 0,
  UNIQUE (stack, name));
CREATE TABLE account (id INTEGER PRIMARY KEY, allocation TEXT NOT NULL, workload TEXT NOT NULL, user TEXT NOT NULL,
  team TEXT NOT NULL, model TEXT NOT NULL, amount INTEGER NOT NULL, currency TEXT NOT NULL,
  UNIQUE (allocation, workload, user, team, model, amount, currency));
CREATE TABLE last_node (node INTEGER PRIMARY KEY REFERENCES node, model TEXT NOT NULL, cards INTEGER NOT NULL,
  answered INTEGER NOT NULL, free INTEGER NOT NULL, off INTEGER NOT NULL, unknown INTEGER NOT NULL);
CREATE TABLE last_held (node INTEGER NOT NULL REFERENCES node, gpu INTEGER NOT NULL, piece TEXT NOT NULL,
  account INTEGER NOT NULL REFERENCES account, milli INTEGER NOT NULL, active INTEGER, bandwidth INTEGER, cpus INTEGER,
  PRIMARY KEY (node, gpu, piece, account)) WITHOUT ROWID;
CREATE TABLE node_span (node INTEGER NOT NULL REFERENCES node, since INTEGER NOT NULL, until INTEGER NOT NULL,
  state TEXT NOT NULL, model TEXT NOT NULL, cards INTEGER NOT NULL, PRIMARY KEY (node, since)) WITHOUT ROWID;
CREATE TABLE held_span (node INTEGER NOT NULL REFERENCES node, gpu INTEGER NOT NULL, piece TEXT NOT NULL,
  account INTEGER NOT NULL REFERENCES account, milli INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL,
  PRIMARY KEY (node, gpu, piece, account, milli, since)) WITHOUT ROWID;
{_SUMS.format(per="hour")}{_SUMS.format(per="day")}
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """For reading a store: what is in it has the types and sums that we write. Raises SwarmError where it has not."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise SwarmError(DAMAGED, hint=REPAIR) from error


def texts(*names: object) -> None:
    """Raises TypeError where one of them is no text: SQLite keeps whatever was put into a column."""
    if not all(isinstance(one, str) for one in names):
        raise TypeError("a name is no text")


@contextlib.contextmanager
def opened(path: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """The store. `write`: made if there is none, and closed to everybody else. Transactions begin where the caller says so.

    Raises SwarmError: there is none; it is no such store, or broken. Refused: a newer version wrote it, or it is a link.
    Retryable: another program holds it.
    """
    if path.is_dir() or not path.name:
        raise SwarmError(f"{path} is a folder", hint="name the file with --store")
    if write:
        _make(path)
    elif not os.path.lexists(path):
        raise SwarmError(f"{path}: nothing was recorded yet", hint="record by a timer: swarm usage --record; see docs/usage.md")
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None
        )
        with contextlib.closing(connection):
            with as_written():
                _prepare(connection, path, write)
            yield connection
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
            raise Retryable(f"{path} is being written", after=_PATIENCE) from None
        hint = "if the file is broken, restore it from a copy, or name another: --store"
        raise SwarmError(f"{path}: {error}", hint=hint) from None


def _prepare(connection: sqlite3.Connection, path: Path, write: bool) -> None:
    # What stands in a foreign file's schema is not run.
    connection.execute("PRAGMA trusted_schema = OFF")
    ((found,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    if write and not found and not version:
        connection.execute("PRAGMA journal_mode = WAL")
        with _whole(connection):
            # Another writer may have been quicker. executescript() would end the transaction.
            if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
                for statement in filter(str.strip, _TABLES.split(";")):
                    connection.execute(statement)
        ((found,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
    if found != APPLICATION:
        raise SwarmError(f"{path} is no store of swarm usage", hint="name another file with --store")
    if version > VERSION:
        hint = "upgrade swarm-iac on this machine, or name another file with --store"
        raise Refused(f"{path} was written by a newer version ({version}; this one knows {VERSION})", hint=hint)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA query_only = {'OFF' if write else 'ON'}")


@contextlib.contextmanager
def _whole(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


#: One transaction: all of it or nothing, whenever the process ends.
whole = _whole


def _make(path: Path) -> None:
    """The file, for its owner alone: SQLite gives the files beside it the same rights. Raises Refused for a link."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Refused(f"{path} is no regular file", hint="name another file with --store")
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
    except OSError as error:
        if path.is_symlink():
            raise Refused(f"{path} is a link", hint="name the file itself with --store") from None
        raise SwarmError(f"{path}: {error.strerror}") from None
