"""plots: what is drawn is what was given, without a window, a global state or a slow import."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.style import context
from matplotlib.text import Text

from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.plotting.plots import plot_bars_topics, plot_shares, plot_topics, plot_trace

PHI = np.array([[1.0, 5, 2, 0], [0, 0, 3, 1], [7, 1, 1, 1]])
VOCAB = ["ant", "bee", "cow", "dog"]
THETA = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0.2, 0.8], [0, 0, 1]])
TRACE = {"n_topics": np.r_[1:9], "log_joint": -1e6 + np.r_[1:9], "alpha": np.ones(8)}
MODEL = SimpleNamespace(
    components_=PHI / PHI.sum(1, keepdims=True),
    topic_shares_=np.array([0.2, 0.5, 0.3]),
    doc_topic_=THETA,
    trace_=TRACE,
    burn_in_=3,
    top_words=lambda n: [["x", "y", "z"][:n], ["u", "v", "w"][:n], ["a", "b", "c"][:n]],
)
EVERY = {
    "topics": lambda **k: plot_topics(MODEL, **k),
    "trace": lambda **k: plot_trace(MODEL, **k),
    "panels": lambda **k: plot_shares(MODEL, list("aabb"), **k),
    "stacked": lambda **k: plot_shares(MODEL, list("aabb"), kind="stacked", **k),
    "bars": lambda **k: plot_bars_topics(MODEL, **k),
}
every = pytest.mark.parametrize("plot", EVERY.values(), ids=EVERY)


def texts(fig):
    return [t.get_text() for t in fig.findobj(Text) if t.get_text()]


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def heights(ax):
    return [bar.get_height() for bar in ax.patches]


@every
def test_returns_a_figure_that_can_be_drawn_shown_saved_and_pickled(plot, tmp_path):
    fig = plot()
    assert type(fig) is Figure
    assert fig._repr_png_().startswith(b"\x89PNG")
    for name in "a.pdf", "a.svg", "a.png":
        fig.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert pickle.loads(pickle.dumps(fig))._repr_png_() == fig._repr_png_()


@every
def test_draws_into_a_given_figure_or_subfigure(plot):
    own = Figure()
    assert plot(fig=own) is own and own.axes
    left, right = Figure().subfigures(1, 2)
    assert plot(fig=left) is left and left.axes and not right.axes


@every
def test_everything_drawn_lies_inside_the_figure(plot):
    fig = plot()
    fig.draw_without_rendering()
    box = fig.get_tightbbox()  # inches
    width, height = fig.get_size_inches()
    assert box.x0 > -0.01 and box.y0 > -0.01 and box.x1 < width + 0.01 and box.y1 < height + 0.01


@every
def test_follows_a_dark_style(plot):
    with context("dark_background"):
        fig = plot()
        assert fig.get_facecolor() == (0, 0, 0, 1)
        assert {t.get_color() for t in fig.findobj(Text) if t.get_text()} <= {"white", "w"}


@every
def test_works_in_threads(plot):
    with ThreadPoolExecutor(2) as pool:
        png = list(pool.map(lambda _: plot()._repr_png_(), range(2)))
    assert len(set(png)) == 1


def test_no_pyplot_no_window_and_matplotlib_only_when_drawing(tmp_path):
    code = """
import sys
from hdp_nb.plotting.plots import plot_topics
assert not any(name.startswith("matplotlib") for name in sys.modules)
plot_topics([[1, 2], [2, 1]]).savefig(sys.argv[1], format="png")
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.png")], capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def test_dollars_are_no_formulas(tmp_path):
    "Text from the data is drawn as it is; as a formula, each of these is an error or another text."
    odd = ["$x^$", "$5 or $6", "a\\$b$", "$\\frac$"]
    every_text = {
        "words": (plot_topics(PHI, odd), set(odd)),
        "label": (
            plot_topics(SimpleNamespace(components_=PHI, top_words=lambda n: [odd[:n]] * 3)),
            set(odd),
        ),
        "panels": (plot_shares(THETA, odd, labels=odd[:3]), set(odd)),
        "stacked": (plot_shares(THETA, odd, labels=odd[:3], kind="stacked"), set(odd)),
        "trace": (plot_trace({text: np.r_[1:9] for text in odd}, odd, burn_in=3), set(odd)),
    }
    for fig, expected in every_text.values():
        for name in "a.pdf", "a.svg", "a.png":
            fig.savefig(tmp_path / name)
        drawn = [text for text in fig.findobj(Text) if "$" in text.get_text()]
        assert expected <= {text.get_text() for text in drawn} and not any(
            text.get_parse_math() for text in drawn if text.get_text() in odd
        )
    bad = Figure()
    bad.text(0, 0, odd[0])  # what would happen
    with pytest.raises(ValueError):
        bad.savefig(tmp_path / "b.png")


# ---------------------------------------------------------------- topics


def test_topics_of_an_array():
    fig = plot_topics(PHI, VOCAB, n_words=2)
    assert [ax.get_title("left") for ax in fig.axes] == ["topic 0", "topic 1", "topic 2"]
    assert [[t.get_text() for t in ax.texts] for ax in fig.axes] == [
        ["bee", "cow"],
        ["cow", "dog"],
        ["ant", "bee"],
    ]
    assert np.allclose(
        [widths(ax) for ax in fig.axes], [[5 / 8, 2 / 8], [3 / 4, 1 / 4], [0.7, 0.1]]
    )
    assert [t.get_text() for t in plot_topics(PHI, n_words=1).axes[2].texts] == ["0"]


def test_topics_largest_first_with_shares():
    fig = plot_topics(PHI, VOCAB, n_topics=2, shares=[0.2, 0.5, 0.3])
    assert [ax.get_title("left") for ax in fig.axes] == ["topic 1 · 50.0%", "topic 2 · 30.0%"]
    assert all(len(ax.texts) == 4 for ax in fig.axes)  # no more words than there are


def test_topics_of_an_estimator():
    fig = plot_topics(MODEL, n_words=3)
    assert [[t.get_text() for t in ax.texts] for ax in fig.axes] == [
        ["u", "v", "w"],
        ["a", "b", "c"],
        ["x", "y", "z"],
    ]
    assert np.allclose(widths(fig.axes[0]), [0.75, 0.25, 0])
    assert plot_topics(MODEL, VOCAB, n_words=1).axes[0].texts[0].get_text() == "cow"


@pytest.mark.parametrize("k", [1, 3, 4, 5, 13])
def test_topics_any_number(k):
    fig = plot_topics(np.ones((k, 3)), n_topics=100)
    assert len(fig.axes) == k
    shown = [ax for ax in fig.axes if ax.xaxis.get_major_ticks()[0].label1.get_visible()]
    assert len(shown) == min(k, 4)  # one scale at the bottom of each column


def test_topics_long_words_do_not_squeeze_the_bars():
    short, long = (plot_topics(np.ones((4, 2)), [length * "w", "bee"]) for length in (3, 60))
    short.draw_without_rendering(), long.draw_without_rendering()
    assert np.allclose(
        [ax.get_position().width for ax in short.axes],
        [ax.get_position().width for ax in long.axes],
    )
    assert long.axes[0].texts[0].get_text() == 19 * "w" + "…"


# ---------------------------------------------------------------- trace


def test_trace_of_an_estimator_with_burn_in():
    fig = plot_trace(MODEL)
    whole, kept = fig.axes[:2]
    assert len(fig.axes) == 4 and whole.get_ylabel() == "n topics"
    assert whole.lines[0].get_ydata().tolist() == [*range(1, 9)] and whole.lines[
        0
    ].get_xdata().tolist() == [*range(1, 9)]
    assert kept.lines[0].get_xdata().tolist() == [4, 5, 6, 7, 8]
    shaded = whole.patches[0].get_extents().transformed(whole.transData.inverted())
    assert np.allclose(shaded.intervalx, [0, 3])
    assert "mean 6" in texts(fig) and kept.lines[1].get_ydata()[0] == 6


def test_trace_of_chains():
    for chains in (
        {k: np.stack([v, v + 2]) for k, v in TRACE.items()},
        [TRACE, {k: v + 2 for k, v in TRACE.items()}],
    ):
        fig = plot_trace(chains, "n_topics")
        assert len(fig.axes) == 1  # no burn-in: nothing to leave out
        assert [line.get_ydata()[0] for line in fig.axes[0].lines[:2]] == [
            1,
            3,
        ] and "mean 5.5" in texts(fig)


def test_trace_draws_what_a_model_has():
    for names in (["n_states", "log_joint"], ["n_topics", "bound"], ["n_components"]):
        fig = plot_trace({name: np.arange(3.0) for name in [*names, "alpha"]})
        assert [ax.get_ylabel() for ax in fig.axes] == [name.replace("_", " ") for name in names]


def test_trace_of_a_chain_that_was_stopped():
    cut = {
        name: np.stack([values, np.where(np.arange(8) < 5, values, np.nan)])
        for name, values in TRACE.items()
    }
    assert "mean 5.571" in texts(plot_trace(cut, "n_topics", burn_in=3))  # of 4, ..., 8 and 4, 5


def test_trace_that_is_all_burn_in():
    fig = plot_trace(TRACE, ["alpha"], burn_in=8)
    assert len(fig.axes) == 1 and not any(t.startswith("mean") for t in texts(fig))


# ---------------------------------------------------------------- shares


def test_shares_by_group():
    groups = ["b", "a", "b", "a"]  # order of first appearance: b, a
    fig = plot_shares(THETA, groups)
    assert [ax.get_title("left") for ax in fig.axes] == ["topic 2", "topic 0", "topic 1"]
    assert np.allclose([heights(ax) for ax in fig.axes], [[0.4, 0.5], [0.5, 0.25], [0.1, 0.25]])
    assert [t.get_text() for t in fig.axes[0].get_xticklabels()] == ["b", "a"]
    weighted = plot_shares(10 * THETA, groups, weights=[3, 1, 1, 0])  # rows need not sum to 1
    bars = {ax.get_title("left"): heights(ax) for ax in weighted.axes}
    assert np.allclose(bars["topic 0"], [0.75, 0.5]) and np.allclose(bars["topic 2"], [0.2, 0])


def test_shares_labels():
    assert plot_shares(MODEL, [1, 1, 2, 2], n_topics=1).axes[0].get_title("left") == "a, b, c"
    assert (
        plot_shares(MODEL, [1, 1, 2, 2], n_topics=1, labels=["p", "q", "r"])
        .axes[0]
        .get_title("left")
        == "r"
    )
    long = plot_shares(THETA, [1, 1, 2, 2], n_topics=1, labels=["internationalisation, " * 3] * 3)
    assert long.axes[0].get_title("left").count("\n") == 2


def test_shares_stacked_reach_one():
    theta = np.random.default_rng(0).dirichlet(np.ones(9), 40)
    fig = plot_shares(theta, np.repeat(np.arange(5), 8), kind="stacked", n_topics=9)
    (ax,) = fig.axes
    assert len(ax.containers) == 7 and np.allclose(
        [b.get_y() + b.get_height() for b in ax.containers[-1]], 1
    )
    assert texts(fig).count("other") == 1


def test_shares_of_many_groups_label_some():
    fig = plot_shares(np.ones((100, 2)), [f"president {i}" for i in range(100)])
    assert len(heights(fig.axes[0])) == 100 and len(fig.axes[0].get_xticklabels()) <= 14


# ---------------------------------------------------------------- bars


def test_bars():
    _, truth = make_bars(5, random_state=0)
    fig = plot_bars_topics(truth.phi)
    assert len(fig.axes) == 20
    for ax, phi in zip(fig.axes, truth.phi):
        assert (ax.images[0].get_array().ravel() == phi).all() and ax.images[0].get_clim() == (
            0,
            0.1,
        )
    assert len(plot_bars_topics(truth.phi[:13], 10, n_cols=5).axes) == 13
    assert [ax.get_title() for ax in plot_bars_topics(MODEL).axes] == ["50.0%", "30.0%", "20.0%"]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: plot_topics([1, 2]), "model"),
        (lambda: plot_topics("topics"), "model"),
        (lambda: plot_topics(PHI - 1), "model"),
        (lambda: plot_topics(PHI * [[1], [0], [1]]), "model"),
        (lambda: plot_topics(PHI * np.nan), "model"),
        (lambda: plot_topics(np.zeros((0, 3))), "model"),
        (lambda: plot_topics(PHI, VOCAB[:3]), "vocab"),
        (lambda: plot_topics(PHI, n_topics=0), "n_topics"),
        (lambda: plot_topics(PHI, n_words=2.5), "n_words"),
        (lambda: plot_topics(PHI, shares=[1, 2]), "shares"),
        (lambda: plot_trace(3), "trace"),
        (lambda: plot_trace({}), "trace"),
        (lambda: plot_trace([]), "trace"),
        (lambda: plot_trace({"a": [1, 2], "b": [1]}, ["a", "b"]), "trace"),
        (lambda: plot_trace({"a": []}, "a"), "trace"),
        (lambda: plot_trace(TRACE, "gamma"), "names"),
        (lambda: plot_trace(TRACE, []), "names"),
        (lambda: plot_trace(TRACE, burn_in=-1), "burn_in"),
        (lambda: plot_shares(THETA, [1, 2]), "groups"),
        (lambda: plot_shares(-THETA, [1] * 4), "doc_topic"),
        (lambda: plot_shares(SimpleNamespace(transform=None), [1] * 4), "doc_topic"),
        (lambda: plot_shares(THETA, [1] * 4, weights=[1]), "weights"),
        (lambda: plot_shares(THETA, [1, 2, 2, 2], weights=[0] * 4), "weights"),
        (lambda: plot_shares(THETA, [1] * 4, labels=["a"]), "labels"),
        (lambda: plot_shares(THETA, [1] * 4, kind="pie"), "kind"),
        (lambda: plot_shares(THETA, [1] * 4, n_topics=True), "n_topics"),
        (lambda: plot_bars_topics(np.ones((2, 5))), "side"),
        (lambda: plot_bars_topics(PHI, 3), "side"),
        (lambda: plot_bars_topics(PHI, n_cols=0), "n_cols"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}(: takes| must be) .* got "):
        call()
