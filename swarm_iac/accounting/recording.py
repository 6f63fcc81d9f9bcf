"""How is a pass added to the store, once and whole? Each in one transaction, and by one writer at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from swarm_iac.accounting import intervals, retention, schema
from swarm_iac.accounting.intervals import HeldAmount, NodeAmount
from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.errors import Refused, Retryable
from swarm_iac.price import Price

#: Two passes further apart than this leave a gap, which is unknown. [s]
LONGEST = 15 * 60
#: A pass so long after the one before is more likely a wrong clock than a fleet that nobody watched. [s]
ABSENCE = 31 * 24 * intervals.HOUR
_Row = tuple[object, ...]
_HELD = ("held", "used", "unknown", "seconds", "bandwidth", "bandwidth_known", "cpus", "cpus_known")
_NODE = ("capacity", "unallocated", "off", "unknown")


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """The right to write the store, while it is held. Raises Retryable where another writer has it."""
    lock = path.parent / f"{path.name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"{lock}: {error.strerror}", hint="name another file with --store") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Retryable(f"{path}: another swarm usage --record is under way", after=60) from None
        yield
    finally:
        os.close(handle)


@schema.as_written()
def occupied(store: sqlite3.Connection, stack: str) -> frozenset[str]:
    """Nodes on which something was held when they last answered."""
    return frozenset(name for (name,) in store.execute("SELECT name FROM node WHERE stack = ? AND occupied", (stack,)))


@schema.as_written()
def check(store: sqlite3.Connection, stack: str, at: int, *, after_gap: bool = False) -> bool:
    """Is a pass at this moment new? False where it was recorded before.

    Raises Retryable where the clock is behind the last pass, so that no time counts twice. Refused where it is a month ahead,
    unless that is meant (`after_gap`).
    """
    last = _last(store, stack)
    if not 0 < at < schema.LATEST:
        raise Refused(f"the clock of this machine says {at} s since 1970", hint="set it right")
    if last is None or at == last:
        return last is None
    if at < last:
        hint = "its clock was set back, or was ahead before: nothing is recorded until it has passed that moment"
        raise Retryable(f"the clock of this machine is {last - at} s behind the last pass", after=last - at, hint=hint)
    if at - last > ABSENCE and not after_gap:
        days = (at - last) // 86400
        hint = "set the clock right; if it is right: --after-gap records that time as unknown"
        raise Refused(f"the last pass was {days} days ago, by this machine's clock", hint=hint)
    return True


@schema.as_written()
def record(
    store: sqlite3.Connection,
    stack: str,
    seen: FleetPass,
    *,
    longest: int = LONGEST,
    after_gap: bool = False,
    keep: int = retention.KEPT,
) -> bool:
    """Add a pass, and what lies between it and the one before. False where it was recorded before. Raises as `check`.

    `keep`: so many days back single hours are kept.
    """
    with schema.whole(store):
        if not check(store, stack, seen.at, after_gap=after_gap):
            return False
        nodes, last = _Nodes(store, stack), _last(store, stack)
        if last is not None:
            _add(store, nodes, _before(store, stack), seen, last, longest)
        _keep(store, nodes, stack, seen)
        retention.drop_hours(store, stack, seen.at, keep)
        return True


class _Nodes:
    """Numbers of nodes by name."""

    def __init__(self, store: sqlite3.Connection, stack: str) -> None:
        self.store, self.stack = store, stack
        self.known = dict(store.execute("SELECT name, id FROM node WHERE stack = ?", (stack,)))

    def __getitem__(self, name: str) -> int:
        if name not in self.known:
            found = self.store.execute("INSERT INTO node (stack, name) VALUES (?, ?)", (self.stack, name))
            self.known[name] = found.lastrowid
        return int(self.known[name])


class _Accounts:
    """Numbers of accounts: a holder with the model that it holds and the price that holds at that time."""

    def __init__(self, store: sqlite3.Connection) -> None:
        self.store = store
        self.known: dict[tuple[Holder, str, Price | None], int] = {}

    def of(self, holder: Holder, model: str, price: Price | None) -> int:
        number = self.known.get((holder, model, price))
        if number is None:
            number = self.known[holder, model, price] = self._number(holder, model, price)
        return number

    def _number(self, holder: Holder, model: str, price: Price | None) -> int:
        money = (price.amount, price.currency) if price else (0, "")
        key = (holder.allocation, holder.workload, holder.user, holder.team, model, *money)
        where = "allocation = ? AND workload = ? AND user = ? AND team = ? AND model = ? AND amount = ? AND currency = ?"
        found = self.store.execute(f"SELECT id FROM account WHERE {where}", key).fetchone()
        if found is None:
            insert = "INSERT INTO account (allocation, workload, user, team, model, amount, currency) VALUES (?,?,?,?,?,?,?)"
            found = (self.store.execute(insert, key).lastrowid,)
        return int(found[0])


def _last(store: sqlite3.Connection, stack: str) -> int | None:
    found = store.execute("SELECT last FROM clock WHERE stack = ?", (stack,)).fetchone()
    return None if found is None else int(found[0])


def _before(store: sqlite3.Connection, stack: str) -> tuple[NodePass, ...]:
    """What the pass before saw."""
    held: dict[int, list[HeldPart]] = {}
    prices: dict[int, Price] = {}
    rows = store.execute(
        "SELECT h.node, gpu, piece, milli, active, bandwidth, cpus, allocation, workload, user, team, amount, currency "
        "FROM last_held h JOIN node n ON n.id = h.node JOIN account a ON a.id = h.account WHERE n.stack = ?",
        (stack,),
    )
    for node, gpu, piece, milli, active, bandwidth, cpus, *who, amount, currency in rows:
        held.setdefault(node, []).append(HeldPart(gpu, piece, Holder(*who), milli, active, bandwidth, cpus))
        if currency:
            prices[node] = Price(amount, currency)
    rows = store.execute(
        "SELECT id, name, model, cards, answered, free, off, unknown FROM last_node JOIN node ON id = node WHERE stack = ?",
        (stack,),
    )
    return tuple(
        NodePass(name, model, cards, bool(answered), free, off, unknown, tuple(held.get(node, ())), prices.get(node))
        for node, name, model, cards, answered, free, off, unknown in rows.fetchall()
    )


def _add(
    store: sqlite3.Connection, nodes: _Nodes, before: tuple[NodePass, ...], seen: FleetPass, last: int, longest: int
) -> None:
    """What lies between two passes."""
    after = {one.node: one for one in seen.nodes}
    accounts = _Accounts(store)
    node_rows: list[_Row] = []
    held_rows: list[_Row] = []
    for one in before:
        node = nodes[one.node]
        known = intervals.known(one, after.get(one.node), seen.at - last, longest)
        for amount in intervals.of_node(one, last, seen.at, is_known=known):
            node_rows.append(_node_row(amount, node, one.model))
        state = "unknown" if not known else "off" if one.out_of_service else "answered"
        _extend_node(store, (seen.at, node, state, one.model, one.cards, last))
        for amount_held in intervals.of_holders(one, last, seen.at) if known else ():
            held_rows.append(_held_row(amount_held, node, accounts.of(amount_held.holder, one.model, one.price)))
        for part in one.held if known else ():
            account = accounts.of(part.holder, one.model, one.price)
            _extend_held(store, (seen.at, node, part.gpu, part.piece, account, part.milli, last))
    for per, hours in (("hour", 1), ("day", 24)):
        _sum(store, f"node_{per}", (per, "node", "model"), _NODE, _per(node_rows, hours))
        _sum(store, f"held_{per}", (per, "node", "account"), _HELD, _per(held_rows, hours), most=("peak",))


def _node_row(one: NodeAmount, node: int, model: str) -> _Row:
    return one.hour, node, model, one.capacity, one.unallocated, one.off, one.unknown


def _held_row(one: HeldAmount, node: int, account: int) -> _Row:
    return one.hour, node, account, *(getattr(one, key) for key in (*_HELD, "peak"))


def _per(rows: Iterable[_Row], hours: int) -> Iterator[_Row]:
    return ((int(str(row[0])) // hours, *row[1:]) for row in rows)


def _sum(
    store: sqlite3.Connection, table: str, keys: _Row, sums: tuple[str, ...], rows: Iterator[_Row], most: tuple[str, ...] = ()
) -> None:
    """Add rows to a table of sums. Its names are ours; what came from a node is in the rows."""
    columns = (*keys, *sums, *most)
    updates = [f"{one} = {one} + excluded.{one}" for one in sums]
    updates += [f"{one} = max({one}, excluded.{one})" for one in most]
    store.executemany(
        f"INSERT INTO {table} ({', '.join(map(str, columns))}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(map(str, keys))}) DO UPDATE SET {', '.join(updates)}",
        rows,
    )


def _extend_node(store: sqlite3.Connection, row: tuple[object, ...]) -> None:
    """Let the span that ends where this one begins go on, if it says the same; else begin one."""
    update = (
        "UPDATE node_span SET until = ? WHERE node = ? AND state = ? AND model = ? AND cards = ? AND until = ? AND since = "
    )
    if not store.execute(f"{update} (SELECT max(since) FROM node_span WHERE node = ?)", (*row, row[1])).rowcount:
        until, node, state, model, cards, since = row
        store.execute("INSERT INTO node_span VALUES (?, ?, ?, ?, ?, ?)", (node, since, until, state, model, cards))


def _extend_held(store: sqlite3.Connection, row: tuple[object, ...]) -> None:
    key = "node = ? AND gpu = ? AND piece = ? AND account = ? AND milli = ?"
    if not store.execute(f"UPDATE held_span SET until = ? WHERE {key} AND until = ?", row).rowcount:
        until, *keys, since = row
        store.execute("INSERT INTO held_span VALUES (?, ?, ?, ?, ?, ?, ?)", (*keys, since, until))


def _keep(store: sqlite3.Connection, nodes: _Nodes, stack: str, seen: FleetPass) -> None:
    """This pass as the last one."""
    mine = "(SELECT id FROM node WHERE stack = ?)"
    store.execute(f"DELETE FROM last_held WHERE node IN {mine}", (stack,))
    store.execute(f"DELETE FROM last_node WHERE node IN {mine}", (stack,))
    accounts = _Accounts(store)
    last: list[_Row] = []
    held: list[_Row] = []
    for one in seen.nodes:
        node = nodes[one.node]
        last.append((node, one.model, one.cards, one.answered, one.free, one.off, one.unknown))
        for part in one.held:
            account = accounts.of(part.holder, one.model, one.price)
            held.append((node, part.gpu, part.piece, account, part.milli, part.active, part.bandwidth, part.cpus))
    store.executemany("INSERT INTO last_node VALUES (?, ?, ?, ?, ?, ?, ?)", last)
    store.executemany("INSERT INTO last_held VALUES (?, ?, ?, ?, ?, ?, ?, ?)", held)
    answered = [(bool(one.held), nodes[one.node]) for one in seen.nodes if one.answered]
    store.executemany("UPDATE node SET occupied = ? WHERE id = ? AND occupied IS NOT ?", [(*one, one[0]) for one in answered])
    store.execute(
        "INSERT INTO clock VALUES (?, ?, ?) ON CONFLICT (stack) DO UPDATE SET last = excluded.last", (stack, seen.at, seen.at)
    )
    store.execute(
        "INSERT INTO in_force SELECT ?, ?, ? WHERE ? IS NOT "
        "(SELECT commit_name FROM in_force WHERE stack = ? ORDER BY since DESC LIMIT 1)",
        (stack, seen.at, seen.commit, seen.commit, stack),
    )
