"""Every page of the documentation, in a real browser."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from notebooks import ROOT, notebooks

PAGES = [path.stem for path in notebooks()] + ["gallery"]
SOURCE = "https://github.com/hdp-nb/hdp_nb"
PROSE = """() => { const body = document.body.cloneNode(true);
    body.querySelectorAll("pre, code, script, .katex").forEach(node => node.remove());
    return body.textContent; }"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "tools" / "site" / "build.py", out], check=True)
    return out


@pytest.fixture
def tab(browser, site):
    """A tab on the index page, and what happens in it that should not."""
    tab = browser.new_page()
    tab.faults = []
    tab.on(
        "console", lambda said: said.type in ("error", "warning") and tab.faults.append(said.text)
    )
    tab.on("pageerror", lambda error: tab.faults.append(str(error)))
    tab.on(
        "request",
        lambda request: (
            request.url.startswith((site.as_uri(), "data:")) or tab.faults.append(request.url)
        ),
    )
    tab.goto((site / "index.html").as_uri())
    yield tab
    tab.close()


def broken(link, page):
    """Why a link (from the page at `page`) leads nowhere, or None. The network is left alone."""
    target, _, anchor = unquote(urljoin(page, link)).partition("#")
    if target.startswith(f"{SOURCE}/blob/main/"):
        return (
            None
            if (ROOT / target.split("/blob/main/")[1]).exists()
            else "no such file in the repository"
        )
    if not target.startswith("file:"):
        return None if target.startswith("https://") else "neither a page nor https"
    file = Path(target.removeprefix("file://"))
    if not file.is_file():
        return "no such page"
    if anchor and f'id="{anchor}"' not in file.read_text(encoding="utf-8"):
        return "no such place on the page"
    return None


@pytest.mark.parametrize("name", PAGES)
def test_page(name, tab, site):
    tab.goto((site / f"{name}.html").as_uri())
    assert tab.faults == []
    assert tab.locator(".math:not(:has(.katex))").count() == 0
    assert (
        re.findall(r".*(?:\$|\\[a-z(\[]|@(?:eq|fig|sec|tbl)-|\?\?|\]\(|#\|).*", tab.evaluate(PROSE))
        == []
    )

    links = tab.evaluate(
        "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
    )
    assert {link: why for link in links if (why := broken(link, tab.url))} == {}
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(ids) == len(set(ids)), "an id stands twice"
    for picture in tab.locator("main img").all():
        assert picture.evaluate("img => img.complete && img.naturalWidth > 0")

    for width in (360, 1280):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, (
            f"too wide for {width} pixels"
        )
    assert (
        tab.evaluate(
            "[...document.querySelectorAll('nav a')].filter(a => a.scrollWidth > a.clientWidth &&"
            " a.clientWidth).map(a => a.innerText)"
        )
        == []
    )


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem) for path in sorted((ROOT / "hdp_nb").glob("[!_]*.py"))],
)
def test_every_public_docstring_is_on_a_page(path, tab, site):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = {
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and ast.get_docstring(node)
    }
    [page] = site.glob(
        f"[0-8][0-9]_{path.stem}.html"
    )  # 9: an experiment may have the same name, but exports nothing
    tab.goto(page.as_uri())
    assert public <= {
        found.removeprefix("api.")
        for found in tab.evaluate(
            "[...document.querySelectorAll('.api [id]')].map(node => node.id)"
        )
    }


def test_methods_are_documented_once_and_linked_where_they_are_inherited(tab, site):
    def api(page):
        tab.goto((site / f"{page}.html").as_uri())
        ids = tab.evaluate("[...document.querySelectorAll('.api [id]')].map(it => it.id)")
        links = "[...document.querySelectorAll('.api p a')].map(it => it.getAttribute('href'))"
        return set(ids), tab.evaluate(links)

    ids, links = api("63_topic_models")
    assert "api.GibbsTopicModel.fit" in ids and not {"api.HDP.fit", "api.LDA.fit"} & ids
    assert links.count("#api.GibbsTopicModel.fit") == 2
    assert "61_saved_models.html#api.SavedModel.save" in links
    ids, links = api("64_tree_models")
    assert {"api.TreeHDP.fit", "api.TreeHDP.node"} <= ids
    assert "63_topic_models.html#api.GibbsTopicModel.transform" in links
    assert "api.OnlineHDP.partial_fit" in api("67_variational_models")[0]
    ids, links = api("68_sequence_models")
    assert "api.HDPHMM.predict" in ids and "61_saved_models.html#api.SavedModel.save" in links
    tab.goto((site / "02_corpus.html").as_uri())
    assert (
        tab.locator(
            "[id='api.Corpus.from_docs'], [id='api.Corpus.split_docs'], [id='api.Corpus.n_docs']"
        ).count()
        == 3
    )


def test_imports_are_folded_away_and_open_with_a_click(tab, site):
    tab.goto((site / "15_franchise.html").as_uri())
    imports = tab.locator("details:has(pre)", has_text="import numpy as np").first
    assert not imports.locator("pre").is_visible()
    imports.locator("summary").click()
    assert imports.locator("pre").is_visible()
    assert "def " not in "".join(tab.locator("details pre").all_inner_texts())


def test_contents_have_floors_and_numbers(tab):
    words = tab.locator("#pages").inner_text().splitlines()
    floors = [word for word in words if word.isupper()]
    numbers = [int(word[:2]) for word in words if word[:2].isdigit()]
    assert floors[0] == "GROUND" and floors[-1] == "EXPERIMENTS" and len(floors) == len({*floors})
    assert numbers == [int(name[:2]) for name in PAGES if name[:2].isdigit()]


def test_pages_follow_each_other_in_reading_order(browser, site):
    "The links are plain ones, which work without JavaScript (and are quicker to follow so)."
    tab, read = browser.new_page(java_script_enabled=False), ["index"]
    tab.goto((site / "index.html").as_uri())
    assert tab.locator("#pages a").count() == len(PAGES)
    while tab.locator("footer [rel=next]").count():
        with tab.expect_navigation():
            tab.locator("footer [rel=next]").click()
        read.append(Path(tab.url).stem)
    tab.close()
    assert read == PAGES


def test_search(tab):
    tab.keyboard.press("/")
    tab.keyboard.type("categorical draw")
    hit = tab.locator("#hits a", has_text="sample_categorical")
    assert hit.count() and "05_special.html#" in hit.first.get_attribute("href")
    hit.first.click()
    tab.wait_for_url("**/05_special.html#*")
    tab.keyboard.press("/")
    tab.keyboard.type("nosuchwordanywhere")
    assert tab.locator("#hits").inner_text() == "Nothing found"
    tab.keyboard.press("Escape")
    assert not tab.locator("#hits").is_visible()
    assert tab.faults == []


def test_every_search_hit_leads_somewhere(tab):
    index = tab.evaluate("INDEX.map(([url, , , anchor]) => `${url}#${anchor}`)")
    assert len(index) > len(PAGES)
    assert {link: why for link in index if (why := broken(link, tab.url))} == {}


def test_gallery(tab, site):
    """Every experiment is in it, and every card has what the paper says or the question, what
    came out here, and a way to the cell.
    """
    tab.goto((site / "gallery.html").as_uri())
    shown = set()
    for card in tab.locator(".card").all():
        first, second = (
            item.locator("strong").first.inner_text() for item in card.locator("li").all()
        )
        assert first in ("The paper", "The question") and second == "Here"
        links = card.locator("a:has(img)").all()
        assert links and all(link.locator("img").get_attribute("alt") for link in links)
        shown |= {link.get_attribute("href").partition(".")[0] for link in links}
    assert shown == {name for name in PAGES if name.startswith("9")}
    assert "The pictures are on the page" not in tab.locator("main").inner_text()


def test_a_picture_that_had_to_shrink_can_be_enlarged(tab, site):
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto((site / "20_split_merge.html").as_uri())
    picture = tab.locator(".picture img").last
    narrow = picture.bounding_box()["width"]
    assert narrow < 390
    picture.click()
    assert (
        picture.bounding_box()["width"] > narrow * 2
        and tab.evaluate("document.documentElement.scrollWidth") <= 390
    )
    picture.click()
    assert picture.bounding_box()["width"] == narrow


def test_dark_and_light(tab):
    def shade():
        return (
            sum(
                map(
                    int,
                    re.findall(
                        r"\d+", tab.evaluate("getComputedStyle(document.body).backgroundColor")
                    )[:3],
                )
            )
            / 765
        )

    assert shade() > 0.9
    tab.locator("#theme").click()
    assert shade() < 0.2
    tab.reload()
    assert shade() < 0.2, "the choice is not kept"


def test_menu_on_a_phone(tab):
    tab.set_viewport_size({"width": 390, "height": 844})
    assert not tab.locator("#pages").is_visible()
    tab.locator("#menu").click()
    with tab.expect_navigation():
        tab.locator("#pages a").last.click()
    assert Path(tab.url).stem == PAGES[-1]
