"""Is the page of a plan complete, safe to open, and of use with a mouse, with keys, without a script, and on paper?"""

from __future__ import annotations

import re
import socketserver
import threading
from http.server import SimpleHTTPRequestHandler

import pytest
from axe_playwright_python.sync_playwright import Axe

from swarm_iac.model.state import LedgerHead, Observed
from swarm_iac.page import page
from swarm_iac.plan import desired, steps
from swarm_iac.plan.show.render import Context, sections
from tests.page.conftest import Open, Opened
from tests.page.fleet import AFTER, BEFORE, HOSTILE, change, stack


def nodes(opened: Opened) -> list[str]:
    """Names of the nodes that the map shows."""
    rows = opened.page.locator("#map tbody tr:visible th")
    return [text.split()[0] for text in rows.all_inner_texts()]


def bright(opened: Opened) -> set[str]:
    """Allocations that no filter dims."""
    return set(opened.page.locator("#map tr:visible b:not(.dim)").all_text_contents())


def test_it_opens_from_a_file_asks_for_nothing_and_nothing_is_wrong(show: Open) -> None:
    opened = show(page(*change()))
    assert [address.partition(":")[0] for address in opened.asked] == ["file"]
    assert opened.complaints == []
    assert opened.page.locator("h1").inner_text() == "Stops 1 allocation"


def test_it_may_fetch_nothing_even_if_a_script_tries(show: Open) -> None:
    hits: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(204)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        tries = f"""async () => {{
            const image = new Image(); image.src = "{address}image"; document.body.append(image);
            const style = document.createElement("style"); style.textContent = '@import "{address}style";'; document.head.append(style);
            const script = document.createElement("script"); script.textContent = "window.ran = 1"; document.body.append(script);
            let fetched = true;
            try {{ await fetch("{address}fetch"); }} catch {{ fetched = false; }}
            await new Promise((done) => setTimeout(done, 300));
            return [fetched, window.ran || 0];
        }}"""
        assert show(page(*change())).page.evaluate(tries) == [False, 0] and hits == []
        # The same page without its policy asks for all of it, so the silence above says something.
        free = re.sub("<meta http-equiv=Content-Security-Policy[^>]*>", "", page(*change()))
        assert show(free).page.evaluate(tries) == [True, 1] and {"/image", "/style", "/fetch"} <= set(hits)
        server.shutdown()


def test_without_a_script_all_of_it_can_be_read(show: Open) -> None:
    plan, context = change()
    opened = show(page(plan, context), java_script_enabled=False, viewport={"width": 1280, "height": 5000})
    opened.page.locator("summary").evaluate_all("each => each.forEach((one) => { one.parentElement.open = true })")
    shown = " ".join(opened.page.locator("body").inner_text().split())
    for section in sections(plan, context):
        assert section.title in shown
        for cell in (cell for cells in (section.rows.cells if section.rows else ()) for cell in cells):
            assert " ".join(cell.split()) in shown, f"{section.title}: {cell}"
    assert not opened.page.locator("#filters").is_visible()
    assert len(nodes(opened)) == 4


@pytest.mark.parametrize("script", [True, False])
def test_text_of_others_is_never_markup(show: Open, script: bool) -> None:
    html = page(*change(HOSTILE), refused=HOSTILE)
    opened = show(html, java_script_enabled=script)
    assert opened.page.locator("img").count() == 0 and opened.page.locator("script").count() == 1
    shown = opened.page.locator("body").inner_text()
    for where in ("drain: ", "Refused\n\n", "compared with "):
        assert where + HOSTILE in shown
    assert opened.page.locator("section.warns", has_text=HOSTILE).count() == 1
    assert opened.page.locator("td", has_text=f"command {HOSTILE}").count() > 0
    if script:
        opened.page.locator("#map b.stop").first.hover()
        assert HOSTILE in opened.page.locator("#about").inner_text()
        assert opened.page.evaluate("typeof hacked") == "undefined"
    assert opened.complaints == []


def test_the_map_is_the_placement_before_and_after(show: Open) -> None:
    opened = show(page(*change()))
    was, now = (opened.page.locator(f"#map td.{side} b").all_text_contents() for side in ("was", "now"))
    assert sorted(now) == [one.name for one in AFTER.allocations]
    assert sorted([*was, "tidy-0"]) == [one.name for one in BEFORE.allocations]  # on n10 nothing changes, so it is there once
    assert opened.page.locator("#map b.move").all_text_contents() == ["chat-1", "chat-1"]
    assert opened.page.locator("#map .was b.stop").all_text_contents() == ["tune-0"]
    assert opened.page.locator("#map .now .part.c2 b").all_text_contents() == ["embed-0", "embed-1"]


def test_filters_leave_what_fits(show: Open) -> None:
    opened = show(page(*change()))
    assert nodes(opened) == ["n1", "n2", "n3", "n10"]
    opened.page.get_by_label("Team").select_option("serving")
    assert nodes(opened) == ["n1", "n2", "n3"] and bright(opened) == {"chat-0", "chat-1"}
    opened.page.get_by_label("Team").select_option("research")  # with the team inside it
    assert bright(opened) == {"embed-0", "embed-1", "tune-0", "tidy-0"}
    stops = opened.page.locator("section", has=opened.page.get_by_role("heading", name="What moves, and why"))
    assert stops.locator("tbody tr:visible").count() == 0
    opened.page.get_by_label("stop", exact=True).check()
    assert bright(opened) == {"tune-0"} and nodes(opened) == ["n2"]
    opened.page.get_by_role("button", name="Show all").click()
    assert len(nodes(opened)) == 4
    opened.page.get_by_label("only nodes that change").check()
    assert nodes(opened) == ["n1", "n2", "n3"] and opened.page.locator("#shown").inner_text() == "3 of 4 nodes"
    opened.page.get_by_label("only nodes that change").uncheck()
    opened.page.get_by_label("Find").fill("tid")
    assert nodes(opened) == ["n10"]
    opened.page.get_by_label("Find").fill("")
    opened.page.get_by_label("configure").check()
    assert nodes(opened) == ["n3"]


def test_each_move_is_an_arrow_from_where_it_runs_to_where_it_will(show: Open) -> None:
    opened = show(page(*change()))
    assert opened.page.locator("svg.moves > path").count() == 1
    numbers = opened.page.locator("svg.moves > path").get_attribute("d") or ""
    x, y, *_, u, v = map(float, re.findall(r"-?[0-9.]+", numbers))
    zero, start, end = (opened.page.locator(where).bounding_box() for where in ("#map", "#map .was b.move", "#map .now b.move"))
    assert zero and start and end
    assert abs(x + zero["x"] - start["x"] - start["width"]) < 2 and start["y"] < y + zero["y"] < start["y"] + start["height"]
    assert abs(u + zero["x"] - end["x"]) < 2 and end["y"] < v + zero["y"] < end["y"] + end["height"]


def test_all_of_it_works_with_keys(show: Open) -> None:
    opened = show(page(*change()))
    keys = opened.page.keyboard
    opened.page.locator("#map").focus()
    about = opened.page.locator("#about")
    keys.press("ArrowRight")
    assert about.inner_text().startswith("chat-0 on n1, before · team serving · stays")
    keys.press("ArrowDown")
    keys.press("ArrowRight")
    assert "chat-1 on n2, before" in about.inner_text() and "moves to n3: n2: drain (fan)" in about.inner_text()
    keys.press("End")
    assert "tidy-0 on n10" in about.inner_text()
    keys.press("Escape")
    assert not about.is_visible()
    changes = opened.page.locator("section", has=opened.page.get_by_role("heading", name="What changes")).locator("table")
    head = changes.locator("th", has_text="node")
    head.locator("button").focus()
    for key, order in (("Enter", "ascending"), ("Space", "descending")):
        keys.press(key)
        assert head.get_attribute("aria-sort") == order
        cells = changes.locator("tbody tr td:first-child").all_inner_texts()
        assert len(set(cells)) > 2 and cells == sorted(cells, reverse=order == "descending")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_no_rule_of_accessibility_is_broken(show: Open, scheme: str, width: int) -> None:
    """By axe-core: names, roles, order, and a contrast of WCAG AA."""
    opened = show(page(*change()), color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    opened.page.locator("details").evaluate_all("each => each.forEach((one) => { one.open = true })")
    found = Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_becomes_of_something_is_never_shown_by_colour_alone(show: Open) -> None:
    opened = show(page(*change()))
    signs = {}
    for kind in ("start", "move", "restart", "stop", "change", "later", "keep"):
        legend = opened.page.locator(f".legend b.{kind}")
        signs[kind] = legend.evaluate("one => getComputedStyle(one, '::before').content")
    assert len(set(signs.values())) == len(signs)


def test_on_paper_nothing_is_folded_or_dark(show: Open) -> None:
    opened = show(page(*change()), color_scheme="dark")
    assert len(opened.page.pdf()) > 10_000
    assert opened.page.locator("details:not([open])").count() == 0
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert not opened.page.locator("#filters").is_visible()
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_plan_without_a_change_says_so(show: Open) -> None:
    plan, context = change()
    opened = show(page(plan.model_copy(update={"steps": ()}), context.__class__(context.stack, AFTER, AFTER)))
    assert opened.page.locator("h1").inner_text().startswith("Nothing to change")
    assert opened.page.locator("#map tr:not(.same) b").count() == 0


def test_without_details_the_page_has_names_alone() -> None:
    asked, ran = stack(command="serve --secret-new"), stack(command="serve --secret-old")
    head = LedgerHead(lineage="l", serial=1, fleet="f")
    seen = {name: Observed(node=name, ledger=head, state=each.state) for name, each in desired(ran, BEFORE).items()}
    plan = steps(seen, desired(asked, AFTER))
    context = Context(asked, BEFORE, AFTER)
    assert "--secret-old" in page(plan, context) and "--secret-new" in page(plan, context)
    names = page(plan, context, details=False)
    assert "secret" not in names and "chat-0" in names
