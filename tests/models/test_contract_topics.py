"""The contract of a topic model (10_models/13_base), held against every topic model of the package.

Each goes through every score, diagnostic, picture, table and report, or is refused by name.
"""

import inspect
import json
import pickle
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from tiers import slow_unless

from hdp_nb.cli import main as cli
from hdp_nb.cli.explore import order_levels
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation import diagnostics
from hdp_nb.evaluation import scores as evaluate
from hdp_nb.models import exchange
from hdp_nb.models import loading as estimators
from hdp_nb.models.base import TopicModel
from hdp_nb.models.loading import load_model
from hdp_nb.models.nested_models import HNHDP, NestedDP
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.models.variational_models import OnlineHDP, VariationalHDP
from hdp_nb.moves.schedule import Moves
from hdp_nb.plotting import plots

WORDS = [f"w{v:02d}" for v in range(16)]
BARS = make_bars(n_docs=80, doc_len=30, grid=4, random_state=0)[0]


def some(docs, extra=()):
    "These documents of the bars, and empty ones, by two authors; the last word is in `extra` only."
    docs = [[], *([v for v in BARS[j].tolist() if v < 15] for j in docs), [], *extra]
    return Corpus.from_docs(
        docs,
        vocab=WORDS,
        groups={"author": [("ann", "ben", "ann")[j % 3] for j in range(len(docs))]},
    )


TRAIN, TEST = (
    some(range(60)),
    some(range(60, 80), extra=[[15], [15, 15, 3, 3, 3, 3]]),
)  # words that the fit has not seen

chains = {"n_iter": 14, "burn_in": 4, "thin": 3, "n_chains": 2, "n_jobs": 1, "random_state": 0}
MODELS = {
    **{
        f"HDP, {sampler}": HDP(sampler=sampler, init=20, moves=0, **chains)
        for sampler in ("crf", "direct", "hybrid", "parallel", "blocked")
    },
    "HDP, moves": HDP(moves=Moves(split_merge=2), **chains),
    "LDA": LDA(6, **chains),
    "TreeHDP": TreeHDP(["author"], init=20, **chains),
    "HNHDP": HNHDP(n_clusters=8, n_topics=5, **chains),
    "NestedDP": NestedDP(n_clusters=8, n_topics=5, **chains),
    "VariationalHDP": VariationalHDP(n_topics=12, max_iter=15, random_state=0),
    "OnlineHDP": OnlineHDP(n_topics=5, batch_size=20, n_passes=3, random_state=0),
    "OnlineHDP, gibbs": OnlineHDP(n_topics=1, e_step="gibbs", n_passes=3, random_state=0),
}
SAMPLED = [name for name in MODELS if hasattr(MODELS[name], "n_iter")]
CLIMBING = ["VariationalHDP", "OnlineHDP", "OnlineHDP, gibbs"]
NESTED = ["HNHDP", "NestedDP"]

every = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def fit():
    "fit(name): a fitted model, what its callback was told, and the z it saw; each is fitted once."
    done = {}

    def find(name):
        if name not in done:
            calls, zs = [], []

            def callback(i, state):
                calls.append(i)
                zs.append(state.z.copy() if hasattr(state, "z") else None)

            done[name] = SimpleNamespace(
                name=name,
                calls=calls,
                zs=zs,
                model=clone(MODELS[name]).fit(TRAIN, callback=callback),
            )
        return done[name]

    return find


def rows_sum_to_one(rows):
    return np.allclose(rows.sum(axis=-1), 1) and (rows >= 0).all()


# ---------------------------------------------------------------- the lists are complete


def test_every_topic_model_is_on_the_list():
    public = [getattr(estimators, name) for name in estimators.__all__]
    found = {
        kind
        for kind in public
        if inspect.isclass(kind)
        and issubclass(kind, BaseEstimator)
        and hasattr(kind, "log_predictive")
    }
    assert found == {type(model) for model in MODELS.values()}
    assert [name for name in MODELS if name not in SAMPLED] == CLIMBING


def test_every_function_is_on_the_list():
    public = {
        name
        for module in (evaluate, diagnostics, plots, exchange)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }
    of_groups = {"shares_by_group", "plot_topics_over_time"}  # see tests/plotting/test_plots.py
    assert public - of_groups | {"report", "posterior_topics"} == {*CALLS}


# ---------------------------------------------------------------- the contract


@every
def test_results(fit, name):
    "Components, shares, words, a table."
    model = fit(name).model
    K = model.n_topics_
    assert isinstance(model, TopicModel) and not isinstance(clone(model), TopicModel)
    assert model.components_.shape == (K, 16) and rows_sum_to_one(model.components_)
    assert model.topic_shares_.shape == (K,) and (model.topic_shares_ >= 0).all()
    assert (np.diff(model.topic_shares_) <= 0).all() and model.topic_shares_.sum() < 1 + 1e-9
    assert np.isclose(model.word_shares_.sum(), 1)
    assert model.vocabulary_ == WORDS and model.n_features_in_ == 16
    top = model.top_words(4)
    assert (
        len(top) == K
        and all(len(words) == 4 and {*words} <= {*WORDS} for words in top)
        and [len(words) for words in model.top_words(99)] == [16] * K
    )
    assert top[0][0] == WORDS[model.components_[0].argmax()]
    table = columns(model.topics(4))
    again = ["found_again"] if name in SAMPLED else []
    assert [*table] == [
        *("topic", "label", "existence", *again),
        *("share", "share_low", "share_high", "words", "documents"),
    ] and all(len(column) == len(table["topic"]) for column in table.values())
    assert np.isclose(sum(table["share"]), 1)
    if name in SAMPLED:  # what most samples have; the number of topics of the sampler is another
        found = model.consensus()
        assert K == found.n_topics_ and np.array_equal(model.components_, found.components_)
        assert np.array_equal(model.topic_shares_, found.topic_shares_)
        if name == "LDA":  # its topics are one chain's, which the other may not have
            assert K == 6 and (found.existence == 1).all() and model.existence_.min() >= 0.5
        else:
            assert np.array_equal(model.existence_, found.existence[:K])
            assert model.existence_.min() > 0.5
        assert np.allclose(model.doc_topic_, found.doc_topic_)
        assert table["share_low"][:K] == pytest.approx(found.share_interval()[0][:K])
    assert (
        table["topic"] == [*range(K), -1]
        and table["share"][:K] == model.topic_shares_.tolist()
        and table["words"] == [*(", ".join(words) for words in top), ""]
    )
    upper = columns(model.topics(2, vocab=[word.upper() for word in WORDS]))
    assert upper["words"][: len(top)] == [", ".join(words[:2]).upper() for words in top]
    with pytest.raises(ValueError, match="vocab must name the 16 columns"):
        model.topics(2, vocab=["a"])
    assert hasattr(model, "samples_") == (name in SAMPLED)


def columns(table):
    "Columns of a table, be it a data frame or a dict."
    return {name: list(table[name]) for name in table}


@pytest.mark.parametrize("name", SAMPLED)
def test_consensus(fit, name):
    "Topics, shares and proportions that agree with the samples that they are from."
    model = fit(name).model
    found, shown = model.consensus(), model._shown()
    assert 0 < found.n_topics_ <= max(counts.n_vk.shape[1] for counts in model.samples_)
    n_chains = len(set(model.sample_chain_[shown]))
    assert found.similarity.shape == (n_chains, n_chains) and len(found.labels) == len(shown)
    for i, label, shares in zip(shown, found.labels, found.share_draws, strict=True):
        counts = model.samples_[i]
        n_k = counts.n_vk.sum(axis=0)
        assert len(label) == len(n_k) and np.array_equal(counts.n_jk.sum(axis=0), n_k)
        own = np.bincount(label[label >= 0], n_k[label >= 0], len(shares))
        assert np.allclose(shares, own / TRAIN.n_tokens)
    assert np.allclose(found.share_draws.sum(axis=1).mean() + found.rest, 1)
    assert rows_sum_to_one(found.words) and rows_sum_to_one(found.documents)
    assert rows_sum_to_one(found.doc_topic_) and len(found.doc_topic_) == TRAIN.n_docs
    assert found.doc_topic_.shape[1] == found.n_topics_ + 1
    low, high = found.document_interval()
    assert (low <= high + 1e-12).all()
    one = clone(model).set_params(n_iter=2, burn_in=1, n_chains=1).fit(TRAIN)
    with pytest.raises(ValueError, match="samples must be at least 2 for a consensus, got 1"):
        one.consensus()
    assert np.isnan(one.topics()["existence"][0])


@pytest.mark.parametrize("name", SAMPLED)
def test_samples(fit, name):
    "What diagnostics read; the last sample is that of the last state.z, in document order."
    run = fit(name)
    model = run.model
    assert run.calls == [*range(14)] * 2 and model.burn_in_ == 4
    assert len(model.samples_) == len(model.sample_chain_) == 8 and set(model.sample_chain_) == {
        0,
        1,
    }
    assert (
        {"n_topics", "log_joint", "log_likelihood"} <= model.trace_.keys() == model.traces_.keys()
    )
    assert all(rows.shape == (2, 14) for rows in model.traces_.values())
    assert all(np.isfinite(rows).all() for rows in model.traces_.values())
    z = run.zs[-1]
    assert z.shape == TRAIN.x.shape
    n_vk = np.zeros((16, z.max() + 1), int)
    np.add.at(n_vk, (TRAIN.x, z), 1)
    kept = model.samples_[-1].n_vk.toarray()
    columns = lambda counts: sorted(tuple(column) for column in counts.T if column.any())
    assert columns(n_vk) == columns(kept) and columns(n_vk) != columns(np.roll(n_vk, 1, axis=0))


@pytest.mark.parametrize("name", CLIMBING)
def test_passes(fit, name):
    run = fit(name)
    assert (
        run.calls == [*range(len(run.model.trace_["n_topics"]))]
        and run.zs == [None] * len(run.calls)
        and len(run.calls) > 2
    )


@every
def test_transform(fit, name):
    "Rows sum to 1, of empty documents and unseen words, too, and do not depend on others."
    model = fit(name).model
    pi = model.transform(TEST)
    assert pi.shape == (TEST.n_docs, model.n_topics_ + 1) and rows_sum_to_one(pi)
    assert len(model.get_feature_names_out()) == pi.shape[1]
    assert model.get_feature_names_out()[-1].endswith("_rest")
    assert np.allclose(model.transform(TEST[5:6]), pi[5:6]) and np.array_equal(
        model.transform(TEST), pi
    )
    assert np.ptp(pi[1:-4], axis=0).max() > 0.2
    X = TEST.to_matrix()  # which knows neither the order of the tokens nor groups
    assert np.array_equal(
        model.transform(X), model.transform(Corpus.from_matrix(X))
    ) and np.array_equal(model.transform(X), model.transform(X.toarray()))
    assert rows_sum_to_one(clone(model).fit_transform(TRAIN))


@every
def test_merged_dropped_and_labelled_topics(fit, name, tmp_path):
    "Proportions add up, for documents of the fit and new ones; scores are as before; saved."
    model = fit(name).model
    K, pi, score = model.n_topics_, model.transform(TEST), model.score(TEST)
    label = model.topic_labels_[1]
    model.label_topics({label: "health"})
    merged = model.merge_topics([0, "health"])
    assert model.n_topics_ == K and model.topic_labels_[1] == "health"
    model.label_topics(None)
    assert model.topic_labels_[1] == label
    first = merged.topic_labels_.index("health")
    assert merged.n_topics_ == K - 1 and rows_sum_to_one(merged.components_)
    found = merged.transform(TEST)
    assert rows_sum_to_one(found) and np.allclose(found[:, first], pi[:, 0] + pi[:, 1])
    assert np.allclose(found[:, -1], pi[:, -1]) and merged.score(TEST) == score
    if hasattr(model, "doc_topic_"):
        assert np.allclose(merged.doc_topic_[:, first], model.doc_topic_[:, :2].sum(axis=1))
    few = merged.drop_topics(["health"])
    assert few.n_topics_ == K - 2 and np.allclose(
        few.transform(TEST)[:, -1], pi[:, [0, 1, -1]].sum(axis=1)
    )
    merged.save(tmp_path / "merged.npz")
    again = load_model(tmp_path / "merged.npz")
    assert again.topic_labels_ == merged.topic_labels_
    assert np.array_equal(again.transform(TEST), found)
    assert "health" in list(columns(again.topics())["label"])
    if name in SAMPLED:
        one = merged.one_sample()
        assert one.n_topics_ == model.samples_[model.best_].n_vk.shape[1]
        assert rows_sum_to_one(one.transform(TEST)) and np.isnan(one.existence_).all()
        assert np.isclose(one.topic_shares_.sum(), 1)


@every
def test_scores(fit, name):
    "score is the mean of log_predictive over a cut that is always the same; better than a guess."
    model = fit(name).model
    score = model.score(TEST)
    assert (
        score == model.score(TEST) == evaluate.document_completion(model, TEST, 0.2, 0)
        and -np.log(16) < score < 0
    )
    assert np.isclose(model.perplexity(TEST), np.exp(-score))
    observed, heldout = TEST.split_tokens(0.2, 1)
    log_p = model.log_predictive(observed, heldout, 0)
    assert log_p.shape == (heldout.n_tokens,) and (log_p < 0).all()
    assert np.array_equal(log_p, model.log_predictive(observed, heldout, 0))
    everything = Corpus(
        np.arange(16), [0, 16], WORDS
    )  # given nothing, the probabilities of all words sum to 1
    assert np.isclose(
        np.exp(model.log_predictive(Corpus([], [0, 0], WORDS), everything, 0)).sum(), 1
    )


@pytest.mark.parametrize("name", [name for name in MODELS if name not in NESTED])
def test_posterior_topics(fit, name):
    model = fit(name).model
    for X in (None, TEST):
        pairs, alphas = (
            [*model.posterior_topics(X)],
            [float(counts.alpha) for counts in getattr(model, "samples_", ())] or [model.alpha_],
        )
        assert len(pairs) == len(alphas)
        for (phi, weight), alpha in zip(pairs, alphas):
            assert (
                phi.shape == (16, weight.shape[-1])
                and weight.shape[:-1] in ((), (TEST.n_docs,))
                and (weight >= 0).all()
            )
            used = (np.atleast_2d(weight) > 0).any(axis=0)
            assert (
                rows_sum_to_one(phi[:, used].T)
                and np.allclose(weight.sum(axis=-1), alpha)
                and used.sum() >= 2
            )


def exactly(phi, w, words):
    "(E2) for three words, all terms."
    a, b, c = (phi[v] for v in words)
    same, W = np.eye(len(w)), w.sum()
    p_z = w[:, None, None] * (w[:, None] + same[:, :, None]) * (w + same[:, None, :] + same[None])
    return (p_z * a[:, None, None] * b[:, None] * c).sum() / (W * (W + 1) * (W + 2))


@every
def test_left_to_right_is_the_probability_of_a_document(fit, name):
    "By enumeration for three words; for one word it is log_predictive given nothing."
    model = fit(name).model
    docs = Corpus.from_docs(
        [[0, 1, 2], [0, 0, 15], [4, 9, 14], []],
        vocab=WORDS,
        groups={"author": ["ann", "ben", "who?", "ann"]},
    )
    n = 12_000 if name.startswith("OnlineHDP") else 3000  # whose topics are sharp: more noise
    found = evaluate.left_to_right(model, docs, n_particles=n, by_document=True, random_state=0)
    if name in NESTED:
        exact = model.score_samples(docs)
    else:
        pairs = [
            (phi, np.broadcast_to(w, (4, phi.shape[1]))) for phi, w in model.posterior_topics(docs)
        ]
        share = getattr(model, "sample_weights_", np.ones(1))
        exact = [
            np.log(share @ [exactly(phi, w[j], docs[j]) for phi, w in pairs]) for j in range(3)
        ] + [0]
    assert np.allclose(found, exact, atol=0.04) and abs(found[3]) < 1e-12
    single = Corpus(np.arange(16), np.arange(17), WORDS)
    nothing = Corpus([], np.zeros(17, int), WORDS)
    assert np.allclose(
        evaluate.left_to_right(model, single, by_document=True),
        model.log_predictive(nothing, single, 0),
    )


@every
def test_copies(fit, tmp_path, name):
    "clone, get_params and set_params, pickle, save and load."
    model = fit(name).model
    fresh = clone(model)
    assert str(fresh.get_params()) == str(model.get_params()) and not hasattr(fresh, "components_")
    before = model.eta
    assert fresh.set_params(eta=0.25).get_params()["eta"] == 0.25 and model.eta == before
    again = clone(model).fit(TRAIN)
    model.save(tmp_path / "model.npz")
    for other in (
        again,
        pickle.loads(pickle.dumps(model)),
        load_model(tmp_path / "model.npz"),
        type(model).load(tmp_path / "model.npz"),
    ):
        assert type(other) is type(model) and isinstance(other, TopicModel)
        assert (
            np.array_equal(other.components_, model.components_)
            and str(columns(other.topics())) == str(columns(model.topics()))
            and other.score(TEST) == model.score(TEST)
        )
        assert np.array_equal(other.transform(TEST), model.transform(TEST))


@every
def test_vocabulary(fit, name):
    "Documents in other words are refused or brought over; counts alone have numbers for words."
    model = fit(name).model
    turned = Corpus(15 - TEST.x, TEST.offsets, WORDS[::-1], TEST.groups)
    for call in (
        model.transform,
        model.score,
        partial(evaluate.left_to_right, model, n_particles=1),
    ):
        with pytest.raises(ValueError, match="X must have the words of vocab in the same order"):
            call(turned)
        with pytest.raises(ValueError, match="15 features"):
            call(Corpus([0, 1, 2], [0, 3], n_words=15, groups={"author": ["ann"]}))
    assert np.array_equal(model.transform(turned.over(WORDS)), model.transform(TEST))
    short = {"n_iter": 2, "burn_in": 0, "n_chains": 1} if name in SAMPLED else {}
    plain = (
        clone(model)
        .set_params(**short)
        .fit(Corpus(TRAIN.x, TRAIN.offsets, n_words=16, groups=TRAIN.groups))
    )
    assert (
        plain.vocabulary_ is None
        and {*sum(plain.top_words(3), [])} <= set(map(str, range(16)))
        and len(plain.topics()["words"])
    )


@every
def test_nothing_to_learn_from(name):
    model = clone(MODELS[name])
    with pytest.raises(ValueError, match="at least 1 token"):
        model.fit(Corpus.from_docs([[], []], n_words=3, groups={"author": ["ann", "ben"]}))
    calls = {
        "transform": (TEST,),
        "score": (TEST,),
        "log_predictive": (TEST, TEST),
        "top_words": (),
        "topics": (),
        "save": ("file.npz",),
    }
    for method, args in calls.items():
        with pytest.raises(NotFittedError, match=type(model).__name__):
            getattr(clone(model), method)(*args)


# ---------------------------------------------------------------- every function


def drawn(figure):
    figure.draw_without_rendering()
    assert figure.axes
    return figure


def coherence(run, tmp_path):
    found = evaluate.coherence_npmi(run.model, TEST, n_words=4)
    assert len(found.topics) == run.model.n_topics_ and abs(found.mean) <= 1


def bring_back(run, tmp_path):
    for name in ("topics.csv", "topics.json"):
        exchange.write_topics(run.model, tmp_path / name)
        back = exchange.read_topics(tmp_path / name)
        assert np.allclose(back.components_, run.model.components_) and np.allclose(
            back.topic_shares_, run.model.topic_shares_
        )
        assert back.vocabulary_ == WORDS and back.top_words(3) == run.model.top_words(3)


def for_pyldavis(run, tmp_path):
    found = exchange.to_pyldavis(run.model, TEST)
    assert (
        rows_sum_to_one(found["topic_term_dists"])
        and rows_sum_to_one(found["doc_topic_dists"])
        and len(found["doc_lengths"]) == 22
    )


def summarise(run, tmp_path):
    found = diagnostics.summary(run.model)
    assert {"n_topics", "log_joint", "share_1"} <= found.keys()  # of NESTED that of a cluster
    assert str(found).count("\n") == len(found)


def largest_shares(run, tmp_path):
    shares = diagnostics.topic_shares(run.model, 2)
    assert (
        shares.shape == (2, 4, 2)
        and (shares[..., 0] >= shares[..., 1]).all()
        and (shares.sum(axis=2) <= 1 + 1e-12).all()
    )


def match(run, tmp_path):
    found = diagnostics.match_topics(run.model, run.model)
    assert np.allclose(found.distances, 0, atol=1e-6)


def similar(run, tmp_path):
    found = diagnostics.posterior_similarity(np.array(run.zs[-3:]), TRAIN.offsets)
    assert found.shape == (TRAIN.n_docs,) * 2 and np.isnan(found[0, 1]) and 0 <= found[1, 2] <= 1


def whole(function):
    "R-hat and effective sample size: a number for every trace."

    def call(run, tmp_path):
        found = function(run.model)
        assert found.keys() == run.model.traces_.keys() and np.isfinite(found["log_joint"])

    return call


def predict(function):
    def call(run, tmp_path):
        assert -np.log(16) < function(run.model, TEST[:12], random_state=0) < 0

    return call


def lag(run, tmp_path):
    assert (
        diagnostics.autocorrelation(
            run.model.trace_.get("log_joint", run.model.trace_.get("bound")), 2
        )[0]
        == 1
    )


def report(run, tmp_path):
    "All files of the command line's report, and the page itself."
    TRAIN.save(tmp_path / "corpus.npz")
    args = cli._parser().parse_args(
        [
            "fit",
            str(tmp_path / "corpus.npz"),
            "--out",
            str(tmp_path / "out"),
            "--n-iter",
            "14",
            "--n-chains",
            "2",
        ]
    )
    outputs = cli.Outputs(tmp_path, print)
    orders = order_levels(TRAIN, "author")
    documents = cli._Documents(TRAIN, TRAIN, TEST, np.arange(TRAIN.n_docs), "author", orders)
    summary, topics = cli._write(args, outputs, run.model, documents)
    assert not outputs.missing and len(topics) == run.model.n_topics_
    assert (
        not summary["interrupted"]
        and summary["held_out"]["perplexity"] < summary["held_out"]["unigram_perplexity"] * 1.2
    )
    listed = len(json.loads((tmp_path / "topics.json").read_text()))
    assert 1 <= listed == run.model.n_topics_
    assert json.loads((tmp_path / "documents.json").read_text())
    cli.write_report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert (
        page.count("<img") == 1
        and page.count("<script") == 2
        and "Typical documents" in page
        and "gamma" in page
    )
    assert np.array_equal(load_model(tmp_path / "model.npz").components_, run.model.components_)


CALLS = {
    "document_completion": predict(evaluate.document_completion),
    "left_to_right": predict(evaluate.left_to_right),
    "perplexity": lambda run, tmp_path: evaluate.perplexity(run.model.score(TEST)),
    "coherence_npmi": coherence,
    "topic_shares": largest_shares,
    "rhat": whole(diagnostics.rhat),
    "ess": whole(diagnostics.ess),
    "autocorrelation": lag,
    "summary": summarise,
    "match_topics": match,
    "posterior_similarity": similar,
    "plot_topics": lambda run, tmp_path: drawn(plots.plot_topics(run.model)),
    "plot_trace": lambda run, tmp_path: drawn(plots.plot_trace(run.model)),
    "plot_shares": lambda run, tmp_path: drawn(
        plots.plot_shares(run.model, TRAIN.groups["author"])
    ),
    "plot_bars_topics": lambda run, tmp_path: drawn(plots.plot_bars_topics(run.model)),
    "write_topics": bring_back,
    "read_topics": bring_back,
    "to_pyldavis": for_pyldavis,
    "report": report,
    "posterior_topics": lambda run, tmp_path: list(run.model.posterior_topics(TEST)),
}
# What cannot mean anything: there are no chains to compare, there is no z, the documents of the fit
# came in a stream, or their proportions are not Dirichlet distributed.
REFUSED = {
    **{
        (call, name): ValueError
        for call in ("topic_shares", "rhat", "ess", "summary")
        for name in CLIMBING
    },
    **{("posterior_similarity", name): ValueError for name in CLIMBING},
    ("plot_shares", "OnlineHDP"): ValueError,
    ("plot_shares", "OnlineHDP, gibbs"): ValueError,
    **{("posterior_topics", name): TypeError for name in NESTED},
}
NEEDS_NO_MODEL = {"posterior_similarity"}  # it takes z, of which there is none


# What a function sees of an HDP is the same for all samplers: two will do.
AGAIN = {f"HDP, {sampler}" for sampler in ("direct", "hybrid", "parallel", "blocked")}


@pytest.mark.parametrize("name", slow_unless(lambda name: name not in AGAIN, MODELS))
@pytest.mark.parametrize("call", CALLS)
def test_every_function_takes_every_model(fit, tmp_path, name, call):
    if call in ("rhat", "ess", "summary"):
        pytest.importorskip("arviz" if find_spec("arviz") else "arviz_stats")
    run = fit(name)
    if (call, name) not in REFUSED:
        CALLS[call](run, tmp_path)
        return
    with pytest.raises(
        REFUSED[call, name],
        match="z: takes" if call in NEEDS_NO_MODEL else type(run.model).__name__,
    ):
        CALLS[call](run, tmp_path)


@pytest.mark.parametrize("function", [evaluate.document_completion, evaluate.left_to_right])
def test_what_is_no_topic_model_is_refused(function):
    with pytest.raises(
        ValueError, match=r"model must be a fitted topic model, with .*, got KMeans\(\)"
    ):
        function(KMeans(), TEST)
