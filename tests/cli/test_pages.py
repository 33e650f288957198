"""The page that one sends round, for topics, states and clusters, in a real browser."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest

from hdp_nb.cli import main as cli
from hdp_nb.corpora.corpus import Corpus


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    "A folder with a run of each kind."
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    docs = [[f"w{w + 8 * (j % 2)}" for w in rng.integers(0, 8, 20)] for j in range(30)]
    Corpus.from_docs(docs, groups={"side": ["a", "b"] * 15}).save(folder / "topics.npz")
    z = np.arange(160) // 20 % 2
    lines = [
        f"{i // 80},{i % 80},{x:.2f},{y:.2f}"
        for i, (x, y) in enumerate(rng.normal(6 * z, 1, (2, 160)).T)
    ]
    (folder / "rows.csv").write_text("animal<b>,when,speed,turn\n" + "\n".join(lines))
    quick = "--n-iter 40 --n-chains 2 --quiet"
    commands = {
        "topics": f"fit topics.npz {quick}",
        "states": f"states rows.csv --id animal<b> --time when --emission normal {quick}",
        "clusters": f"clusters rows.csv --group animal<b> --columns speed,turn {quick}",
    }
    for kind, command in commands.items():
        words = command.replace("topics.npz", str(folder / "topics.npz"))
        words = words.replace("rows.csv", str(folder / "rows.csv")).split()
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.main([*words, "--out", str(folder / kind)]) == 0
    return folder


def opened(browser, path, **settings):
    "A tab with a page, and what went wrong."
    tab, faults = browser.new_page(**settings), []
    tab.on("console", lambda said: faults.append(said.text))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    own = ("file:", "data:")
    tab.on("request", lambda asked: asked.url.startswith(own) or faults.append(asked.url))
    tab.goto(Path(path).absolute().as_uri())
    return tab, faults


@pytest.mark.parametrize("kind", ["topics", "states", "clusters"])
def test_a_page_is_whole_at_both_widths_printed_and_without_scripts(pages, browser, kind):
    for scripts in (True, False):
        page = pages / kind / "report.html"
        tab, faults = opened(browser, page, java_script_enabled=scripts)
        for width in (390, 1440):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate("[...document.images].every(i => i.naturalWidth > 0)")
        assert tab.locator("h1").inner_text().lower().startswith(kind)
        assert tab.locator("table").first.is_visible()
        assert tab.locator("table tr").count() > 3
        tab.emulate_media(media="print")
        assert tab.locator("table").first.is_visible()
        hidden = tab.locator(".control input")
        assert not any(hidden.nth(i).is_visible() for i in range(hidden.count()))
        assert len(tab.pdf()) > 10_000
        assert not faults
        tab.close()


@pytest.mark.parametrize("kind, text", [("states", "state 1"), ("clusters", "cluster 1")])
def test_the_long_table_can_be_searched(pages, browser, kind, text):
    tab, faults = opened(browser, pages / kind / "report.html")
    rows = tab.locator("#rows tr:visible")
    everything = rows.count()
    tab.locator("#search").fill(text)
    assert 1 < rows.count() < everything
    assert f"{rows.count() - 1} of {everything - 1}" == tab.locator("#found").inner_text()
    tab.locator("#search").fill("")
    assert rows.count() == everything and not faults
    tab.close()


@pytest.mark.parametrize("kind", ["states", "clusters"])
def test_a_page_begins_with_three_sentences(pages, kind):
    page = (pages / kind / "report.html").read_text()
    places = [page.index(f">{begin}: ") for begin in ("Found", "How sure", "Next")]
    assert places == sorted(places) and "animal<b>" not in page.replace("animal&lt;b&gt;", "")
