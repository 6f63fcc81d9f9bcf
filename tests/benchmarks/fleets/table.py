"""What do all solves say together? Times, gaps, moves, and every problem with the seed and edit that shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.benchmarks.fleets.case import CLOSE, SOFT, Row

#: So many cases of one kind are listed.
SHOWN = 8
#: What is promised is promised of fleets up to so many machines and workloads, at the effort that is the default.
MACHINES, WORKLOADS, EFFORT = 50, 100, "normal"


def summary(rows: list[Row]) -> Row:
    """The figures as data."""
    solves = [row for row in rows if "seconds" in row]
    fine = [row for row in solves if "gap_percent" in row]
    changes = [row for row in fine if row["edit"]]
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in solves:
        if "error" in row:
            kinds[row["error"]].append(row)
    found: dict[str, list[tuple[Row, str]]] = defaultdict(list)
    for row in solves:
        for rule, text in row.get("findings", ()):
            found[rule].append((row, text))
    ends = {row["seed"]: row for row in fine}
    return {
        "fleets": len({row["seed"] for row in rows}),
        "solves": len(solves),
        "from_nothing": times([row for row in solves if not row["edit"]]),
        "change": times([row for row in solves if row["edit"]]),
        "promised": {
            name: promised([row for row in fine if (row["edit"] == 0) is nothing])
            for name, nothing in (("from_nothing", True), ("change", False))
        },
        "gap_within": _part([row["gap_percent"] <= CLOSE for row in fine]),
        "gap_within_at_the_end": _part([row["gap_percent"] <= CLOSE for row in ends.values()]),
        "gap_proven_within": _part([row["gap_proven_percent"] <= CLOSE for row in fine if "gap_proven_percent" in row]),
        "gap_worst": max((row["gap_percent"] for row in fine), default=0.0),
        "moves_proven": _part([row["moves_proven"] for row in changes]),
        "moves_proven_of_moving": _part([row["moves_proven"] for row in changes if row["moves"]]),
        "optimal": _part([row["optimal"] for row in fine]),
        "moves": sum(row["moves"] for row in changes),
        "stops": sum(row["stops"] for row in changes),
        "unplaced": sum(row["unplaced"] for row in fine),
        "replicas": sum(row["replicas"] for row in fine),
        "peak_mb": max((row["peak_mb"] for row in fine), default=0),
        "errors": [
            {"kind": kind, "count": len(ones), "cases": [_at(row) for row in ones], "traceback": ones[0]["traceback"]}
            for kind, ones in sorted(kinds.items(), key=lambda pair: -len(pair[1]))
        ],
        "problems": [
            {
                "kind": kind,
                "breaks": not kind.startswith(SOFT),
                "count": len(ones),
                "solves": len({_at(row) for row, _ in ones}),
                "cases": [{"at": _at(row), "text": text} for row, text in ones],
            }
            for kind, ones in sorted(found.items(), key=lambda pair: (pair[0].startswith(SOFT), pair[0]))
        ],
        "drawn_refused": [{"at": _at(row), "text": row["refused"]} for row in rows if row.get("drawn")],
        "edits_refused": sum("refused" in row and not row.get("drawn") for row in rows),
    }


def promised(rows: list[Row]) -> Row:
    """Of small fleets at the usual effort: quality up to so many machines, and time where the workloads are few as well."""
    small = [row for row in rows if row["nodes"] <= MACHINES and row["effort"] == EFFORT]
    timed = sorted(row["cpu_seconds"] for row in small if row["workloads"] <= WORKLOADS)
    return {
        "solves": len(small),
        "gap_within": _part([row["gap_percent"] <= CLOSE for row in small]),
        "moves_proven": _part([row["moves_proven"] for row in small]),
        "timed": len(timed),
        "cpu": [round(timed[min(len(timed) - 1, int(len(timed) * part))], 2) for part in (0.5, 0.95, 1)] if timed else [],
    }


def times(rows: list[Row]) -> Row:
    """Seconds of solves: median, 95%, worst, and which was the worst."""
    found = sorted(rows, key=lambda row: row["seconds"])
    if not found:
        return {"solves": 0, "median": 0.0, "p95": 0.0, "worst": 0.0, "worst_at": ""}
    at = [found[min(len(found) - 1, int(len(found) * part))]["seconds"] for part in (0.5, 0.95)]
    return {
        "solves": len(found),
        "median": round(at[0], 3),
        "p95": round(at[1], 3),
        "worst": round(found[-1]["seconds"], 3),
        "worst_at": _at(found[-1]),
    }


def bad(told: Row) -> bool:
    """Is there an error, a broken rule, or a drawn file that was refused?"""
    return bool(told["errors"] or told["drawn_refused"] or any(one["breaks"] for one in told["problems"]))


def lines(told: Row) -> Iterator[str]:
    """The table for people."""
    yield f"{told['fleets']} fleets, {told['solves']} solves, {told['replicas']} replicas placed, {told['unplaced']} without a place"
    yield ""
    yield f"{'':14} {'solves':>7} {'median s':>9} {'95% s':>9} {'worst s':>9}  worst at"
    for name, key in (("from nothing", "from_nothing"), ("change", "change")):
        t = told[key]
        yield f"{name:14} {t['solves']:>7} {t['median']:>9.2f} {t['p95']:>9.2f} {t['worst']:>9.2f}  {t['worst_at']}"
    yield ""
    yield (
        f"GPU gap within {CLOSE}%: {_shown(told['gap_within'])} of the solves, {_shown(told['gap_within_at_the_end'])} of the"
        f" fleets at their last solve; worst {told['gap_worst']}%"
    )
    for name, key in (("from nothing", "from_nothing"), ("changes", "change")):
        if (of := told["promised"][key])["timed"]:
            yield (
                f"up to {MACHINES} machines, effort {EFFORT}, {of['solves']} {name}: gap within {CLOSE}% {_shown(of['gap_within'])},"
                f" fewest moves {_shown(of['moves_proven'])}; with up to {WORKLOADS} workloads CPU s median, 95%, worst"
                f" {', '.join(f'{one:.2f}' for one in of['cpu'])}"
            )
    if told["gap_proven_within"] is not None:
        yield f"beside the bounds of a thorough search: {_shown(told['gap_proven_within'])} of the solves"
    yield (
        f"changes with the fewest moves proven: {_shown(told['moves_proven'])}, of those that move any"
        f" {_shown(told['moves_proven_of_moving'])}; solves proven optimal: {_shown(told['optimal'])}"
    )
    yield f"moves {told['moves']}, stops {told['stops']}, edits refused by the stack file's checks {told['edits_refused']}"
    yield f"most memory of the process {told['peak_mb']} MB"
    yield from _errors(told)
    for title, breaks in (("broken rules", True), ("changes without need, missed places, odd reasons", False)):
        ones = [one for one in told["problems"] if one["breaks"] is breaks]
        yield f"\n{title}: {sum(one['count'] for one in ones) or 'none'}"
        for one in ones:
            yield f"  {one['kind']}: {one['count']} in {one['solves']} solves"
            yield from (f"    {each['at']}: {each['text']}" for each in one["cases"][:SHOWN])
            if one["count"] > SHOWN:
                yield f"    and {one['count'] - SHOWN} more (--json has all)"


def _errors(told: Row) -> Iterator[str]:
    yield f"\nerrors: {sum(one['count'] for one in told['errors']) or 'none'}"
    for one in told["errors"]:
        yield f"  {one['count']} x {one['kind']}"
        yield f"    {', '.join(one['cases'][:SHOWN])}{' …' if one['count'] > SHOWN else ''}"
        yield from (f"    | {line}" for line in one["traceback"].rstrip().splitlines())
    if told["drawn_refused"]:
        yield f"\ndrawn files that were refused: {len(told['drawn_refused'])}"
        yield from (f"  {one['at']}: {one['text']}" for one in told["drawn_refused"][:SHOWN])


def _at(row: Row) -> str:
    return f"seed {row['seed']} edit {row['edit']}"


def _part(found: list[bool]) -> float | None:
    return round(sum(found) / len(found), 4) if found else None


def _shown(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f}%"
