"""plotting.components: what a picture shows is what the model says."""

import pickle

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Polygon, Rectangle
from matplotlib.text import Text

from hdp_nb import HDPHMM, Corpus, DPMixture, HDPMixture
from hdp_nb.plotting.components import (
    component_colors,
    plot_components,
    plot_dwell_times,
    plot_group_weights,
    plot_profiles,
    plot_states,
    plot_transitions,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
Z = np.tile(np.repeat([0, 1], 20), 6)
X = np.column_stack([RNG.normal(8.0 * Z), RNG.normal(size=len(Z)), RNG.normal(-5.0 * Z)])
ROWS = RNG.normal(6.0 * RNG.integers(0, 2, (90, 1)), 1, (90, 3))
WARDS = np.repeat(["a", "b", "c"], 30)


@pytest.fixture(scope="module")
def hmm():
    return HDPHMM(emission="normal", n_iter=100, n_chains=1, random_state=0).fit(X)


@pytest.fixture(scope="module")
def herd():
    model = HDPHMM(emission="normal", n_iter=100, n_chains=1, random_state=0)
    return model.fit([X[:100], X[100:180], X[180:]], groups=["wild", "tame", "wild"])


@pytest.fixture(scope="module")
def mixture():
    return HDPMixture("normal", n_iter=100, n_chains=1, random_state=0).fit(ROWS, groups=WARDS)


EVERY = {
    "states": lambda hmm, mixture, **k: plot_states(hmm, X, **k),
    "all sequences": lambda hmm, mixture, **k: plot_states(hmm, **k),
    "transitions": lambda hmm, mixture, **k: plot_transitions(hmm, **k),
    "dwell times": lambda hmm, mixture, **k: plot_dwell_times(hmm, **k),
    "pairs": lambda hmm, mixture, **k: plot_components(mixture, ROWS, **k),
    "histogram": lambda hmm, mixture, **k: plot_components(mixture, ROWS, 1, **k),
    "profiles": lambda hmm, mixture, **k: plot_profiles(mixture, **k),
    "groups": lambda hmm, mixture, **k: plot_group_weights(mixture, **k),
}
every = pytest.mark.parametrize("plot", EVERY.values(), ids=EVERY)


def texts(fig):
    return [t.get_text() for t in fig.findobj(Text) if t.get_text()]


@every
def test_returns_a_figure_that_can_be_drawn_saved_and_pickled(plot, hmm, mixture, tmp_path):
    fig = plot(hmm, mixture)
    assert type(fig) is Figure and fig._repr_png_().startswith(b"\x89PNG")
    for name in "a.pdf", "a.svg":
        fig.savefig(tmp_path / name)
    assert pickle.loads(pickle.dumps(fig))._repr_png_() == fig._repr_png_()


@every
def test_draws_into_a_given_figure(plot, hmm, mixture):
    own = Figure()
    assert plot(hmm, mixture, fig=own) is own and own.axes


def ribbon(ax):
    (image,) = ax.findobj(AxesImage)
    return image.get_array()


def test_ribbon_has_the_probabilities_of_the_states(hmm):
    """Of every step the share of a colour is the probability of its state, to half a pixel."""
    proba, colors = hmm.predict_proba(X), component_colors(hmm.n_states_)
    image = ribbon(plot_states(hmm, X).axes[-1])
    assert image.shape == (24, len(X), 3)
    for k, color in enumerate(colors):
        share = (np.abs(image - color).max(axis=2) < 1e-9).mean(axis=0)
        assert np.abs(share - proba[:, k]).max() <= 0.5 / 24 + 1e-9


def test_part_of_a_recording(hmm):
    whole, part = plot_states(hmm, X), plot_states(hmm, X, start=30, stop=50)
    assert (ribbon(part.axes[-1]) == ribbon(whole.axes[-1])[:, 30:50]).all()
    assert part.axes[-1].get_xlim() == (30, 50)


def test_long_recordings_are_averaged_and_lose_no_visit(hmm):
    long = np.tile(X[:20], (400, 1))
    long[4000:4003] = X[25:28]
    image = ribbon(plot_states(hmm, long).axes[-1])
    assert image.shape[1] == 2000
    other = component_colors(hmm.n_states_)[hmm.predict(X)[25]]
    found = np.flatnonzero((np.abs(image - other).max(axis=2) < 1e-9).mean(axis=0) > 0.4)
    assert set(found) <= {999, 1000, 1001} and 1000 in found


def test_missing_steps_are_hatched(hmm):
    gaps = X.copy()
    gaps[10:14] = np.nan
    gaps[50:60, 1] = np.nan
    fig = plot_states(hmm, gaps)

    def hatched(ax):
        return [(p.get_x(), p.get_x() + p.get_width()) for p in ax.patches if p.get_hatch()]

    assert hatched(fig.axes[0]) == [(10, 14)] and hatched(fig.axes[-1]) == [(10, 14)]
    assert hatched(fig.axes[1]) == [(10, 14), (50, 60)]


def test_one_of_several_sequences(herd):
    parts = [X[:100], X[100:180], X[180:]]
    groups = ["wild", "tame", "wild"]
    by_list = plot_states(herd, parts, groups=groups, sequence=1)
    by_length = plot_states(herd, X, [100, 80, 60], groups, sequence=1)
    for fig in (by_list, by_length):
        assert ribbon(fig.axes[-1]).shape[1] == 80
        assert fig.axes[0].lines[0].get_ydata().tolist() == X[100:180, 0].tolist()
    assert (ribbon(by_list.axes[-1]) == ribbon(by_length.axes[-1])).all()
    with pytest.raises(ValueError, match="sequence"):
        plot_states(herd, parts, groups=groups, sequence=3)


def test_all_sequences_have_their_states_and_groups(herd):
    fig = plot_states(herd)
    images = fig.axes[0].findobj(AxesImage)
    colors = component_colors(herd.n_states_)
    assert (images[0].get_array()[0] == colors[herd.labels_[:100]]).all()
    assert (images[2].get_array()[0] == colors[herd.labels_[180:]]).all()
    assert {"0 (wild)", "1 (tame)", "2 (wild)"} <= set(texts(fig))


def test_symbols_of_a_corpus():
    """A step is a word, drawn by its number."""
    docs = Corpus.from_docs([[0, 0, 1, 1] * 8, [2, 2, 3, 3] * 8])
    model = HDPHMM(n_iter=50, n_chains=1, random_state=0).fit(docs)
    fig = plot_states(model, docs, sequence=1)
    assert fig.axes[0].lines[0].get_ydata().tolist() == [2, 2, 3, 3] * 8


@pytest.mark.parametrize("duration", ["geometric", "negative_binomial"])
def test_the_graph_says_how_long_visits_last(hmm, duration):
    "The largest state has visits of twenty steps; with laws of dwell times none follows itself."
    if duration != "geometric":
        hmm = HDPHMM(
            emission="normal", duration=duration, n_iter=60, n_chains=1, random_state=0
        ).fit(X)
    state, k, dwell, steps = texts(plot_transitions(hmm, kind="graph"))[0].split()
    assert (state, k, steps) == ("state", "0", "steps") and 15 < float(dwell) < 30


def test_transitions_are_the_models(hmm, herd):
    found = hmm.transitions(0.8)
    fig = plot_transitions(hmm, 0.8)
    (image,) = fig.axes[0].findobj(AxesImage)
    off = ~np.eye(hmm.n_states_, dtype=bool)
    assert np.allclose(np.ma.getdata(image.get_array())[off], found.mean[off])
    assert f"{found.mean[0, 0]:.2f}\n{found.low[0, 0]:.2f}–{found.high[0, 0]:.2f}" in texts(fig)
    groups = plot_transitions(herd)
    assert [ax.get_title() for ax in groups.axes] == [str(g) for g in herd.groups_]


def test_dwell_times_are_those_of_the_samples(hmm):
    found = hmm.dwell_times()
    fig = plot_dwell_times(found)
    bars = [p for p in fig.axes[0].patches if isinstance(p, Rectangle)]
    for bar in bars:
        a, b = bar.get_x(), bar.get_x() + bar.get_width()
        share = np.mean((found.runs[0] > a) & (found.runs[0] <= b))
        assert bar.get_height() == pytest.approx(share)
    assert sum(bar.get_height() for bar in bars) > 0.9
    assert any(isinstance(p, Polygon) for p in fig.axes[0].patches)
    assert len(plot_dwell_times(hmm, n_states=1).axes) == 1


def test_names_given_by_the_user(hmm):
    named = hmm.relabel({0: "rest $5"})
    for fig in (plot_states(named, X), plot_transitions(named), plot_dwell_times(named)):
        assert any("rest $5" in text for text in texts(fig))
        fig._repr_png_()


def test_pairs_of_columns_and_their_ellipses(mixture):
    """Nine tenths of a cluster's rows are within its ellipse."""
    fig = plot_components(mixture, ROWS, [0, 2])
    (ax,) = fig.axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("column 0", "column 2")
    points = ax.collections[0].get_offsets()
    assert np.asarray(points).tolist() == ROWS[:, [0, 2]].tolist()
    z, mean, covariance = mixture.predict(ROWS), mixture.means_, mixture.covariances_
    for k, line in enumerate(ax.lines[:2]):
        at = line.get_xydata() - mean[k, [0, 2]]
        inverse = np.linalg.inv(covariance[k][np.ix_([0, 2], [0, 2])])
        assert np.allclose(np.einsum("ni,ij,nj->n", at, inverse, at), -2 * np.log(0.1), rtol=1e-3)
        inside = ROWS[z == k][:, [0, 2]] - mean[k, [0, 2]]
        assert np.mean(np.einsum("ni,ij,nj->n", inside, inverse, inside) < -2 * np.log(0.1)) > 0.75


def test_columns_by_default_are_those_that_differ(hmm):
    fig = plot_components(hmm, X, None)
    assert fig.axes[0].get_xlabel() == "column 0" and len(fig.axes) == 3
    with pytest.raises(ValueError, match="columns must be"):
        plot_components(hmm, X, ["speed"])
    with pytest.raises(ValueError, match="columns must be"):
        plot_components(hmm, X, [3])


def test_names_of_columns_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["height", "mass", "age"])
    model = DPMixture("normal", n_iter=50, n_chains=1, random_state=0).fit(frame)
    fig = plot_components(model, frame, ["mass", "age"])
    assert (fig.axes[0].get_xlabel(), fig.axes[0].get_ylabel()) == ("mass", "age")
    assert {"height", "mass", "age"} <= set(texts(plot_profiles(model)))


@pytest.mark.parametrize("likelihood", ["poisson", "multinomial", "student"])
def test_other_likelihoods(likelihood):
    counts = RNG.poisson(np.where(np.arange(40)[:, None] < 20, [9, 2, 1], [1, 2, 9]))
    model = DPMixture(likelihood, n_iter=50, n_chains=1, random_state=0).fit(counts)
    plot_components(model, counts)._repr_png_()
    fig = plot_profiles(model)
    (image,) = fig.axes[0].findobj(AxesImage)
    assert image.get_array().shape == (model.n_components_, 3)


def test_weights_of_groups_are_the_models(mixture):
    low, high = mixture.group_weight_interval()
    fig = plot_group_weights(mixture)
    (image,) = fig.axes[0].findobj(AxesImage)
    assert np.allclose(image.get_array(), mixture.group_weights_)
    shown = f"{mixture.group_weights_[1, 0]:.2f}\n{low[1, 0]:.2f}–{high[1, 0]:.2f}"
    assert shown in texts(fig) and {"a", "b", "c", "none of these"} <= set(texts(fig))
