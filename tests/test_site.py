"""Every page of the documentation, in a real browser, as it is published."""

import ast
import functools
import re
import subprocess
import sys
import threading
from collections import Counter
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin

import axe_playwright_python
import moving
import numpy as np
import pytest
import run
import yaml
from naive import log_words
from notebooks import ROOT, modules, notebooks, page
from tiers import slow_unless

from hdp_nb.processes.dp import log_eppf

NBS = ROOT / "nbs"
SOURCE = "https://github.com/hdp-nb/hdp_nb/blob/main/"
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
PAGES = sorted(page(path) for path in [*notebooks(), *NBS.glob("*.md"), *NBS.glob("[!m_]*/*.md")])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out, trees = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("trees")
    command = run.command("site", [str(out), "-d", str(trees)])
    subprocess.run([sys.executable, *command[1:]], check=True, cwd=ROOT)
    return out


@pytest.fixture(scope="module")
def base(site):
    class Quiet(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # which keeps connections

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("localhost", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def tab(browser, base):
    """A tab, and what happens in it that should not."""
    tab, tab_faults = browser.new_page(), []
    tab.faults = tab_faults
    tab.on(
        "console", lambda said: said.type in ("error", "warning") and tab_faults.append(said.text)
    )
    tab.on("pageerror", lambda error: tab_faults.append(str(error)))
    tab.on(
        "request",
        lambda request: request.url.startswith((base, "data:")) or tab_faults.append(request.url),
    )
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def ids(site):
    """The places that a link can lead to, page by page."""
    return {
        path.relative_to(site).as_posix(): set(
            re.findall(r'\bid="([^"]*)"', path.read_text(encoding="utf-8"))
        )
        for path in site.rglob("*.html")
    }


def broken(link, url, base, ids):
    """Why a link from the page at `url` leads nowhere, or None. The network is left alone."""
    target, _, anchor = unquote(urljoin(url, link)).partition("#")
    if target.startswith(SOURCE):
        exists = (ROOT / target.removeprefix(SOURCE)).exists()
        return None if exists else "no such file in the repository"
    if not target.startswith(base):
        return None if target.startswith("https://") else "neither a page nor https"
    page = target.removeprefix(base).partition("?")[0] or "index.html"
    if page.endswith(".html"):
        good = page in ids and (not anchor or anchor in ids[page])
    else:
        good = page.startswith(("_images/", "_static/"))
    return None if good else "no such place"


LITTER = re.compile(r".*(?:\$|\\[a-z(\[]|@(?:eq|fig|sec|tbl)-|\?\?|\]\(|#\||```|:::).*")
LOOK = """() => {
    const all = (what) => [...document.querySelectorAll(what)];
    const prose = document.body.cloneNode(true);
    prose.querySelectorAll("pre, code, script, .math, .sig, dl.py").forEach(node => node.remove());
    return {
        text: prose.textContent,
        unset: all(".math").filter(at => !at.querySelector(".katex")).length,
        links: [...new Set(all("a[href]").map(a => a.getAttribute("href")))],
        twice: all("[id]").map(at => at.id).filter((id, i, ids) => ids.indexOf(id) !== i),
        pictures: all("article img").filter(img => !img.naturalWidth || !img.alt
            || img.matches(".cell_output *") && !img.closest("figure").innerText.match("Figure ")
        ).length,
        api: all("header a, nav a").some(a => a.innerText.trim() === "API"),
    }
}"""
TOO_WIDE = """() => {
    const wide = [...document.querySelectorAll("article :is(pre, .sig, h1, h2, h3)")]
        .filter(at => at.scrollWidth > at.clientWidth + 1).map(at => at.innerText.slice(0, 80));
    const page = document.documentElement;
    return page.scrollWidth > page.clientWidth ? ["the page", ...wide] : wide;
}"""
# Formulas are set by KaTeX, and the colours of code are the same everywhere: one page will do.
LIGHTEN = """plain => {
    for (const at of document.querySelectorAll(plain ? ".math, pre" : ".math"))
        at.textContent = at.matches("pre") ? at.textContent : "x";
}"""
ACCUSE = """async ([where, options]) =>
    (await axe.run(document.querySelector(where), {resultTypes: ["violations"], ...options}))
    .violations.map(found => [found.id, found.nodes[0].html])"""


# Pages of every kind: here axe looks at all of the page, by day and at night.  Elsewhere, where
# frame and colours are the same, at what is in the article; pages of the API are all alike.  What
# is not of every kind waits for --slow: axe and the wide window elsewhere, modules in the API.
ALL_OF = {
    "index",
    "api",
    "book",
    "gallery",
    "tasks/save",
    "16_utils/01_checks",
    "08_nested/01_hnhdp",
}
ALL_OF |= {
    "10_models/01_quickstart",
    "13_experiments/09_benchmarks",
    "made/hdp_nb.HDP",
    "made/hdp_nb.mcmc.chain",
}
WHOLE = {"light": ("html", {}), "dark": ("html", {"runOnly": ["color-contrast"]})}
ARTICLE = {"light": ("article", {"rules": {"color-contrast": {"enabled": False}}})}


def look(tab, name, base, ids, thorough):
    """Open a page, and hold it against everything that every page has to be."""
    url = f"{base}{name}.html"
    brief = name not in ALL_OF and (name.startswith("made/") or not thorough)
    widths = (390,) if brief else (1360, 390)  # to resize takes as long as all else together
    tab.faults.clear()
    tab.set_viewport_size({"width": widths[0], "height": 900})
    tab.goto(url)
    assert tab.faults == []
    seen = tab.evaluate(LOOK)
    assert LITTER.findall(seen["text"]) == []
    assert seen["unset"] == 0 and seen["pictures"] == 0 and seen["twice"] == [] and seen["api"]
    why = {link: broken(link, url, base, ids) for link in seen["links"]}
    assert {link: reason for link, reason in why.items() if reason} == {}
    for width in widths:
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate(TOO_WIDE) == [], f"cut off or too wide at {width} pixels"
    if brief:
        return
    tab.set_viewport_size({"width": 1360, "height": 900})
    tab.evaluate(LIGHTEN, name != "16_utils/01_checks")
    tab.evaluate(AXE)
    # A color on its way from one theme to the other has no contrast to be judged by.
    tab.emulate_media(reduced_motion="reduce")
    for theme, what in (WHOLE if name in ALL_OF else ARTICLE).items():
        tab.evaluate("theme => {document.documentElement.dataset.theme = theme}", theme)
        assert tab.evaluate(ACCUSE, what) == [], f"axe, on the {theme} page"
    tab.emulate_media(reduced_motion="no-preference")


@pytest.fixture(scope="module")
def thorough(request):
    return request.config.getoption("--slow")


# Opened on every push: what people come to first, and every third of the other pages.
OFTEN = ALL_OF | {name for name in PAGES if name.startswith("tasks/")} | {*PAGES[::3]}


@pytest.mark.parametrize("name", slow_unless(OFTEN.__contains__, PAGES))
def test_page(name, tab, base, ids, thorough):
    look(tab, name, base, ids, thorough)


ASK = """async (urls) => {
    const refused = [];
    document.addEventListener("securitypolicyviolation", (at) => refused.push(at.blockedURI));
    const answers = urls.map((url) => fetch(url).then((got) => got.ok, () => false));
    return [await Promise.all(answers), refused];
}"""


def test_pages_take_nothing_from_elsewhere(browser, base, site):
    elsewhere, tab = "https://example.org/", browser.new_page()
    tab.goto(base + "index.html")
    assert tab.evaluate(ASK, [elsewhere, base + "glossary.html"]) == [[False, True], [elsewhere]]
    tab.close()
    for path in set(site.rglob("*.html")) - set(site.glob("_static/*")):
        assert "Content-Security-Policy" in path.read_text(encoding="utf-8"), path


def test_pages_of_the_api(tab, site, base, ids, thorough):
    """A page for every name in api.md and every module, and everything public on one of them.

    Without --slow a third of the pages are opened.
    """
    of_modules = {f"hdp_nb.{name}" for name in modules()}
    for number, path in enumerate(sorted(site.glob("made/*.html"))):
        some = path.stem not in of_modules and number % 3 == 0
        if thorough or some or f"made/{path.stem}" in ALL_OF:
            look(tab, f"made/{path.stem}", base, ids, thorough)
    tab.set_viewport_size({"width": 1360, "height": 900})
    there = set().union(*(ids[page] for page in ids if page.startswith("made/")))
    missing = []
    for module, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
                names = {f"hdp_nb.{module}.{node.name}", f"hdp_nb.{node.name}"}
                if not node.name.startswith("_") and not names & there:
                    missing.append(f"{module}.{node.name}")
    assert missing == []
    assert {"hdp_nb.HDP.fit", "hdp_nb.HDP.save", "hdp_nb.Corpus.from_docs"} <= there


def test_the_parameters_of_fit_are_two_clicks_away(tab, base):
    tab.set_viewport_size({"width": 1360, "height": 900})
    tab.goto(base + "index.html")
    tab.locator("header a", has_text="API").first.click()
    tab.locator("article a", has_text=re.compile("^HDP$")).first.click()
    fit = tab.locator("[id='hdp_nb.HDP.fit']").locator("xpath=..")
    assert "callback" in fit.inner_text() and "checkpoint" in fit.inner_text()


# What people type, and the page that has to come first.
QUERIES = {
    "save a model": "tasks/save",
    "load model": "tasks/save",
    "export topics": "tasks/save",
    "pyldavis": "tasks/save",
    "resume after interruption": "tasks/save",
    "fit texts": "tasks/texts",
    "csv": "tasks/texts",
    "CountVectorizer": "tasks/texts",
    "folder of text files": "tasks/texts",
    "how many topics": "tasks/number",
    "number of topics": "tasks/number",
    "too many topics": "tasks/number",
    "convergence": "tasks/convergence",
    "did it converge": "tasks/convergence",
    "R-hat": "tasks/convergence",
    "ConvergenceWarning": "made/hdp_nb.ConvergenceWarning",
    "choose a sampler": "tasks/sampler",
    "slow first fit": "tasks/sampler",
    "compare models": "tasks/compare",
    "perplexity": "tasks/compare",
    "coherence": "tasks/compare",
    "held-out words": "tasks/compare",
    "stream of documents": "tasks/stream",
    "partial_fit": "made/hdp_nb.OnlineHDP",
    "dask cluster": "tasks/machines",
    "corpus larger than memory": "tasks/machines",
    "hidden markov model": "07_sequences/01_hdp_hmm",
    "time series regimes": "tasks/states",
    "states of a sequence": "tasks/states",
    "cluster rows": "tasks/clusters",
    "custom likelihood": "tasks/model",
    "Chinese restaurant franchise": "04_topics/01_franchise",
    "split merge": "03_mixtures/04_split_merge",
    "document_completion": "made/hdp_nb.document_completion",
    "HDPHMM": "made/hdp_nb.HDPHMM",
}


def test_search_finds_what_people_ask_for(tab, base, thorough):
    one_each = {page: query for query, page in QUERIES.items()}.values()
    asked, first = {query: QUERIES[query] for query in (QUERIES if thorough else one_each)}, {}
    for query in asked:
        tab.goto(f"{base}search.html?q={query}")  # hits are shown one by one, the best one first
        hit = tab.locator("ul.search li a, .search-summary:has-text('did not match')").first
        first[query] = (hit.get_attribute("href") or "").partition(".html")[0]
    assert first == asked


def test_code_is_folded_by_rule_and_opens_with_a_click(tab, base):
    tab.goto(base + "04_topics/01_franchise.html")
    imports = tab.locator("details:has(pre)", has_text="import numpy as np").first
    assert not imports.locator("pre").is_visible()
    imports.locator("summary").click()
    assert imports.locator("pre").is_visible()
    names = tab.locator("details summary").all_inner_texts()
    assert "Imports" in names and any(re.fullmatch(r"[\w, ]+: \d+ lines", name) for name in names)
    assert "FranchiseState" in tab.locator("details:has(pre)").all_inner_texts().__str__()


def test_equations_are_linked_where_they_are_cited(tab, base):
    tab.goto(base + "02_processes/01_dp.html")
    link = tab.locator("article p a", has_text="(5)").first
    assert tab.locator(link.get_attribute("href")).locator(".katex-tag").inner_text() == "(5)"


def test_equations_of_other_notebooks_are_linked(tab, base):
    tab.goto(base + "07_sequences/04_blocked.html")
    links = [a.get_attribute("href") for a in tab.locator("article p a").all()]
    assert any(re.fullmatch(r"01_hdp_hmm.html#eq-H\d", link) for link in links)


SCROLLED = """at => {
    at.scrollLeft = 1000;
    const [seen, said, box] = [at.querySelector("img"), at.querySelector("figcaption"), at]
        .map(part => part.getBoundingClientRect());
    return {scale: seen.width / at.querySelector("img").naturalWidth, moved: at.scrollLeft,
            caption: [said.left - box.left, box.right - said.right], focus: at.tabIndex};
}"""


def test_figures_are_large_enough_to_read(tab, base):
    """On a phone a wide one scrolls inside of its frame, by key too; its caption stays."""
    tab.set_viewport_size({"width": 390, "height": 900})
    tab.goto(base + "13_experiments/06_categories.html")
    figure = tab.locator(".cell_output figure[tabindex]").first
    figure.wait_for()
    seen = figure.evaluate(SCROLLED)
    assert seen["scale"] > 0.49 and seen["moved"] > 200 and seen["focus"] == 0
    assert max(map(abs, seen["caption"])) < 12
    tab.set_viewport_size({"width": 1360, "height": 900})
    tab.reload()
    figure = tab.locator(".cell_output figure").first
    seen = figure.evaluate(SCROLLED)
    assert seen["scale"] > 0.49 and seen["moved"] == 0 and seen["focus"] == -1


SAID = """tex => [...document.querySelectorAll("span.math")]
    .filter(at => at.querySelector("annotation").textContent === tex).map(at => at.title)"""


def test_formulas_say_what_their_symbols_mean(tab, base):
    """As the notebook's own table has it; elsewhere as the glossary has it."""
    tab.goto(base + "04_topics/01_franchise.html")
    tab.wait_for_selector("span.math[title]", state="attached")
    said = lambda tex: tab.evaluate(SAID, tex)
    assert set(said("n_{vk}")) == {"n_vk: tokens of dish k that are the word v"}
    tab.goto(base + "12_plotting/02_widgets.html")
    tab.wait_for_selector("span.math[title]", state="attached")
    assert set(said("\\gamma")) == {
        "γ: concentration of the top DP: the larger, the more components in the whole corpus"
    }


def test_pages_follow_each_other_in_reading_order(site):
    read, name = ["index"], "index"
    while "rel=next" in (html := (site / f"{name}.html").read_text("utf-8").replace('"', "")):
        link = re.search(r"<a class=right-next\s+href=(\S+)", html)
        if not link:
            break
        name = (site / name).parent.joinpath(link[1]).resolve().relative_to(site).as_posix()
        name = name.removesuffix(".html")
        read.append(name)
    names = [page(path) for path in notebooks()]
    assert [one for one in read if one in names] == names


def test_both_builders_have_all_pages_in_the_same_order():
    found = []

    def walk(entries):
        for entry in entries:
            found.append(entry if isinstance(entry, str) else entry["section"])
            walk(() if isinstance(entry, str) else entry["contents"])

    walk(
        yaml.safe_load((ROOT / "_quarto.yml").read_text("utf-8"))["website"]["sidebar"]["contents"]
    )
    assert sorted(name.rpartition(".")[0] for name in found) == PAGES
    assert [name for name in found if name.endswith(".ipynb")] == [
        f"{page(path)}.ipynb" for path in notebooks()
    ]
    for path in [*NBS.glob("*.md"), *NBS.glob("[!m_]*/*.md")]:
        for link in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", path.read_text("utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_gallery(tab, base):
    """Every experiment is in it, with what the paper says or the question, what came out here,
    and a way to the cell.
    """
    tab.goto(base + "gallery.html")
    shown = set()
    for card in tab.locator("section section section").all():
        first, second = (
            item.locator("strong").first.inner_text() for item in card.locator("li").all()
        )
        assert first in ("The paper", "The question") and second == "Here"
        links = card.locator("a:has(img)").all()
        assert links and all(link.locator("img").get_attribute("alt") for link in links)
        shown |= {link.get_attribute("href").partition(".")[0] for link in links}
    assert shown == {
        name for name in PAGES if name.startswith("13_") and not name.endswith("index")
    }


STEPS = {"stick": 1, "urn": 1, "franchise": 20, "bars": 10, "split": 20, "hmm": 60}
DRAWN = """async ([name, seed, steps]) => {
    const machine = await Machine.of(name);
    machine.reset(seed);
    for (let i = 0; i < steps; i++) machine.call("step");
    return Object.fromEntries(Object.keys(machine.arrays).map(key => [key, machine.get(key)]));
}"""


def test_the_browser_draws_what_python_draws(tab, base):
    """Every array of a scene, after the same steps from the same seed; another seed differs."""
    tab.goto(base + "moving.html")
    for name, steps in STEPS.items():
        here, there = moving.draw(name, 3, steps), tab.evaluate(DRAWN, [name, 3, steps])
        other = moving.draw(name, 4, steps)
        for key, array in here.items():
            close = np.allclose if array.dtype == float else np.array_equal
            assert close(array.ravel(), there[key]), f"{name}: {key}"
        assert any(not np.array_equal(here[key], other[key]) for key in here)


def test_figures_that_move(tab, base):
    """Each in its notebook, too; clicks change what is seen and said, and the slider goes back."""
    tab.goto(base + "moving.html")
    tab.faults.clear()
    assert {f.get_attribute("data-scene") for f in tab.locator(".moving").all()} == set(STEPS)
    for name in STEPS:
        figure = tab.locator(f".moving[data-scene={name}]")
        look = lambda: (figure.locator(".stage").inner_html(), figure.locator("p").inner_text())
        figure.locator("button", has_text="Step").wait_for()
        seen = [look()]
        for button in ("Step", "Step", "Other numbers"):
            figure.locator("button", has_text=button).click()
            seen.append(look())
        assert all(a[0] != b[0] and a[1] for a, b in zip(seen, seen[1:])), name
        figure.locator("button", has_text="Step").focus()
        tab.keyboard.press("Enter")
        after = look()
        assert after != seen[-1]
        figure.locator("input").first.focus()
        tab.keyboard.press("ArrowLeft")
        assert look()[1] != after[1], name
    assert tab.faults == []


def weigh_by_seatings(i):
    """The joint probability of everything, with customer i at each table and at new ones."""
    shown = moving.scenes()["franchise"][1]
    x, t, z = (shown[name].tolist() for name in ("x", "t", "z"))
    doc = np.repeat(range(4), np.diff(shown["offsets"])).tolist()
    dish, j, T = dict(zip(zip(doc, t), z)), doc[i], int(shown["n_tables"][doc[i]])
    others = {key for c, key in enumerate(zip(doc, t)) if c != i}
    known = {dish[key] for key in others}
    seats = [(b, dish[d, b]) for d, b in others if d == j]
    seats += [(T, k) for k in known | {min(set(range(16)) - known)}]

    def log_joint(table, k):
        at = list(zip(doc, t[:i] + [table] + t[i + 1 :]))
        served = {key: k if key == (j, table) else dish[key] for key in at}
        total = log_words(x, [served[key] for key in at], len(moving.WORDS), float(shown["eta"]))
        total += log_eppf(list(Counter(served.values()).values()), float(shown["gamma"]))
        sizes = [[n for key, n in Counter(at).items() if key[0] == d] for d in range(4)]
        return total + sum(log_eppf(n, float(shown["alpha"])) for n in sizes)

    p = np.exp([log_joint(*seat) for seat in seats])
    out = np.zeros_like(shown["out"])
    out[[b + k * (b == T) for b, k in seats]] = p / p.sum()
    return out


def test_probabilities_of_a_customer(tab, base):
    """Those by which whole seatings differ: at every table, and at a new one with every dish."""
    tab.goto(base + "04_topics/01_franchise.html")
    tab.locator("[data-customer='9']").click()
    said = tab.locator(".moving[data-scene=franchise] p").inner_text()
    shown = [float(p) / 100 for p in re.findall(r"([\d.]+)%", said)]
    assert "restaurant 2" in said and sum(shown) == pytest.approx(1, abs=0.005)
    there = tab.evaluate("""async () => {
        const machine = await Machine.of("franchise");
        machine.set("chosen", 9);
        machine.call("weigh");
        return machine.get("out");
    }""")
    expected, other = weigh_by_seatings(9), weigh_by_seatings(10)
    assert np.allclose(there, expected, atol=1e-9) and not np.allclose(there, other, atol=1e-3)
    assert np.allclose([p for p in there if p > 0], shown, atol=0.00051)
