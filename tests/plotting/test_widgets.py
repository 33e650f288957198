"""Widgets: figures follow from the numbers, and sliders change them, in a real JupyterLab too."""

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.text import Text
from notebooks import ROOT, is_run, read
from scipy import stats

from hdp_nb.plotting import widgets
from hdp_nb.plotting.widgets import (
    Sweep,
    break_stick,
    draw_seating,
    draw_sticks,
    play_seating,
    play_sticks,
    play_topics,
    seat_customers,
    show_topics,
)
from hdp_nb.processes.dp import log_eppf

SWEEPS = [Sweep(np.full((K, 9), 1 / 9), np.full(K, 1 / K)) for K in (3, 25, 1)]


def titles(fig):
    return " | ".join(text.get_text() for text in fig.findobj(Text) if text.get_text())


def test_stick():
    u = np.random.default_rng(0).random((3000, 30))
    small, large = (np.array([break_stick(row, alpha) for row in u]) for alpha in (0.7, 5.0))
    assert np.allclose(small.sum(1), 1) and (small >= 0).all() and (small[:, 0] > large[:, 0]).all()
    rest = 1 - large[:, 0]
    assert (
        stats.kstest(large[:, 1] / rest, stats.beta(1, 5).cdf).pvalue
        > 0.01
        > stats.kstest(large[:, 1] / rest, stats.beta(1, 6).cdf).pvalue
    )


def test_probabilities_of_the_customers_multiply_up_to_that_of_the_plan():
    for lengths, alpha, gamma in (((6, 0, 9), 0.4, 3.0), ((1,), 1.0, 1.0), ((5, 5), 30.0, 0.2)):
        seats = seat_customers(lengths, alpha, gamma, seed=4)
        assert np.bincount(
            [seat.restaurant for seat in seats], minlength=len(lengths)
        ).tolist() == list(lengths)
        sizes = [
            np.bincount([seat.table for seat in seats if seat.restaurant == j] or [0]) * (n > 0)
            for j, n in enumerate(lengths)
        ]
        dishes = {(seat.restaurant, seat.table): seat.dish for seat in seats}
        m_k = np.bincount(list(dishes.values()))
        assert sum(seat.opens for seat in seats) == len(dishes) and sum(
            seat.invents for seat in seats
        ) == len(m_k)
        assert np.isclose(
            sum(np.log(seat.p_table * seat.p_dish) for seat in seats),
            sum(log_eppf(n_t, alpha) for n_t in sizes) + log_eppf(m_k, gamma),
        )
    assert seat_customers(()) == [] and seat_customers((4, 4), seed=1) == seat_customers(
        (4, 4), seed=1
    ) != seat_customers((4, 4), seed=2)


def test_pictures_say_what_they_show():
    assert "1 colour in 1 draw" in titles(draw_sticks(n=1))
    seats = seat_customers((3, 2), seed=0)
    assert "0 of 5; nobody" in titles(
        draw_seating(seats, 0)
    ) and "1 of 5; restaurant 1: the customer opens table 1 (1.00)" in titles(
        draw_seating(seats, 1)
    )
    assert "5 of 5" in titles(draw_seating(seats)) and draw_seating([])
    fig = show_topics(SWEEPS, 2)
    assert (
        "sweep 2: 25 topics" in titles(fig)
        and sum(len(ax.images) for ax in fig.findobj(lambda it: hasattr(it, "images"))) == 20
    )
    assert "sweep 3: 1 topic |" in titles(show_topics(SWEEPS)) + " |"


def test_a_slider_changes_the_picture():
    for widget, value in ((play_sticks(), 50.0), (play_seating(), 9), (play_topics(SWEEPS), 3)):
        before, widget.children[0].value = widget.result, value
        assert titles(widget.result) != titles(before)


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda: break_stick([0.5], 0), "alpha"),
        (lambda: draw_sticks(alpha=-1), "alpha"),
        (lambda: draw_sticks(n=0), "n must"),
        (lambda: seat_customers((2,), gamma=np.inf), "gamma"),
        (lambda: seat_customers((2, -1)), "lengths"),
        (lambda: seat_customers((2, 1.5)), "lengths"),
        (lambda: show_topics(SWEEPS, 0), "sweep"),
        (lambda: show_topics(SWEEPS, 4), "sweep"),
        (lambda: show_topics([Sweep(np.ones((1, 7)) / 7, np.ones(1))]), "7"),
    ],
)
def test_bad_input(call, what):
    with pytest.raises(ValueError, match=what):
        call()


def test_without_ipywidgets_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match="pip install"):
        widgets.play_sticks()


# Notebook, and the cell that shows a widget.
PLAYED = [
    ("12_plotting/02_widgets", "play_sticks()"),
    ("12_plotting/02_widgets", "play_seating()"),
    ("12_plotting/02_widgets", "play_topics(sweeps)"),
    ("03_mixtures/04_split_merge", "widget"),
    ("07_sequences/01_hdp_hmm", "stepper"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    "Address of a JupyterLab over copies of the notebooks; of slow cells only those with widgets."
    pytest.importorskip("jupyterlab", reason="needs JupyterLab: .venv/bin/pip install jupyterlab")
    import nbformat

    root = tmp_path_factory.mktemp("lab")
    for name in {name for name, _ in PLAYED}:
        nb = read(ROOT / "nbs" / f"{name}.ipynb")
        shows = {f"#| slow\n{call}" for _, call in PLAYED}
        nb.cells = [cell for cell in nb.cells if is_run(cell) or cell.source in shows]
        last = max(i for i, cell in enumerate(nb.cells) if cell.source in shows)
        del nb.cells[last + 1 :]
        for cell in nb.cells:
            cell.outputs = []
        nbformat.write(nb, root / f"{name}.ipynb")
    # All cells are in the page, whether in sight or not.
    settings = (
        root / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    )
    settings.parent.mkdir(parents=True)
    settings.write_text('{"windowingMode": "none"}')
    log = (root / "log").open("w")
    # The server picks a free port and tells it in a file of its runtime folder.
    env = {
        **os.environ,
        "JUPYTER_RUNTIME_DIR": str(root / "runtime"),
        "JUPYTER_CONFIG_DIR": str(root / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(root / "settings"),
    }
    env.pop("MPLBACKEND", None)
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--expose-app-in-browser",
            "--port=0",
            "--ServerApp.ip=127.0.0.1",
            "--IdentityProvider.token=",
            f"--ServerApp.root_dir={root}",
        ],
        env=env,
        stdout=log,
        stderr=log,
    )
    try:
        address = None
        for _ in range(120):
            for line in (root / "log").read_text().splitlines():
                if "http://127.0.0.1:" in line:
                    address = "http://127.0.0.1:" + line.split("http://127.0.0.1:")[1].split("/")[0]
            if address:
                break
            assert server.poll() is None, (root / "log").read_text()
            time.sleep(0.5)
        assert urllib.request.urlopen(f"{address}/api/status").status == 200
        yield address
    finally:
        server.terminate()
        server.wait(30)
        log.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for name, _ in PLAYED}))
def test_in_jupyterlab(name, lab, browser, tmp_path):
    """Dragging the first slider of every widget changes its figure.

    $PICTURES names a folder to keep the figures in.
    """
    pictures, n = Path(os.environ.get("PICTURES", tmp_path)), sum(name == it for it, _ in PLAYED)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(
        f"{lab}/lab/workspaces/{name}/tree/{name}.ipynb"
    )  # a workspace of its own: else the last test's notebook comes back
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.evaluate("""async () => {
        const session = jupyterapp.shell.currentWidget.sessionContext;
        await session.ready;
        await session.session.kernel.info;
        await Promise.race([
            jupyterapp.commands.execute("notebook:run-all-cells"),
            new Promise(done => setTimeout(done, 400_000)),
        ]);
    }""")
    widgets, failed = (
        page.locator(".widget-interact"),
        page.locator("[data-mime-type='application/vnd.jupyter.error']"),
    )
    assert failed.all_inner_texts() == [] and widgets.count() == n
    for i, widget in enumerate(widgets.all()):
        widget.scroll_into_view_if_needed()
        page.wait_for_timeout(1000)
        handle, track, readout = (
            widget.locator(part).first for part in (".noUi-handle", ".noUi-base", ".widget-readout")
        )
        before, value = widget.locator("img").get_attribute("src"), readout.inner_text()
        widget.screenshot(path=pictures / f"{name}-{i}-before.png")
        at, line = handle.bounding_box(), track.bounding_box()
        page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
        page.mouse.down()
        page.mouse.move(line["x"] + 0.7 * line["width"], at["y"] + at["height"] / 2, steps=3)
        page.mouse.up()
        page.wait_for_function(
            "([widget, src]) => (widget.querySelector('img') ?? {src}).src !== src",
            arg=[widget.element_handle(), before],
            timeout=30_000,
        )
        assert readout.inner_text() != value
        page.wait_for_timeout(2000)  # several may come on the way
        widget.screenshot(path=pictures / f"{name}-{i}-after.png")
    page.close()


def test_learn_names_the_models_it_takes():
    model = SimpleNamespace(fit=lambda corpus, callback: callback(0, SimpleNamespace()))
    with pytest.raises(ValueError, match="^model must be HDP, LDA, TreeHDP .* got SimpleNamespace"):
        widgets.learn(model, None)
