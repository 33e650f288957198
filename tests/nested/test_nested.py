"""The nested sampler against exact posteriors, its own bookkeeping and wrong samplers; HNHDP and
NestedDP as users meet them.
"""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from naive_nested import Gibbs, Model, Posterior, largest_error, sampled
from quickstart import check_quick_start
from scipy.special import gammaln, logsumexp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from tiers import sweeps

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_nested
from hdp_nb.evaluation.scores import document_completion, left_to_right
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.mcmc.priors import as_prior
from hdp_nb.models.nested_models import HNHDP, NestedDP
from hdp_nb.nested import moves as nested_moves
from hdp_nb.nested import sampler as nested_sampler
from hdp_nb.nested.hnhdp import (
    BOTH,
    GLOBAL,
    LOCAL,
    NestedCase,
    NestedState,
    exact_nested,
    nested_configurations,
    nested_log_joint,
)
from hdp_nb.nested.sampler import (
    NestedSampler,
    _log_rest,
    _log_words,
    log_in_clusters,
    memberships,
    nested_predictive,
    slice_cluster_concentration,
    term_variance,
    topic_proportions,
)
from hdp_nb.processes.dp import resample_concentration

TINY = {
    "full": Model([[0, 0, 1], [0, 2], [2, 1]], 3, 2, 2, 1.3, 0.7, 1.2, 0.4),
    "full, a word that never occurs": Model([[0, 1], [], [2, 2]], 4, 3, 2, 0.8, 1.5, 0.9, 0.3),
    "no word selection": Model([[0, 0], [0, 1], [1]], 2, 2, 2, 1.3, 0.7, 1.2, 0.4, "topics"),
    "one epsilon": Model([[0, 0], [0, 1], [1]], 2, 2, 2, 1.3, 0.7, 1.2, 0.4, "topics", shared=True),
    "nested": Model([[0, 0, 1], [0, 2], [2, 1]], 3, 3, 2, 1.3, 0.7, 1.2, 0.5, "nested"),
}


def make_sampler(m, docs=None, prior=None, **options):
    return NestedSampler(
        Corpus.from_docs(docs or m.docs, n_words=m.V),
        m.K,
        m.L,
        m.alpha,
        m.beta,
        m.gamma,
        prior,
        m.eta,
        word_selection=m.kind == "words",
        global_topics=m.kind != "nested",
        shared_epsilon=m.shared,
        **options,
    )


def states_of(sampler, n, seed=0):
    "States after sweeps of the kernel, without the cost of a new workspace."
    rng = np.random.default_rng(seed)
    state, s = sampler.init(rng), sampler.workspace()
    for _ in range(n):
        for counts in (s.n, s.n_l, s.side, s.m_k, s.S):
            counts[...] = 0
        nested_sampler.sweep_nested(rng, state, sampler.data, s, sampler.prior)
        yield state, s


def collect(sampler, n):
    "Means of what `summary` compares, and of gamma."
    gammas = []

    def parts():
        for state, _ in states_of(sampler, n):
            gammas.append(float(state.conc_cluster))
            yield (
                np.equal.outer(state.c, state.c),
                state.q == 1,
                np.equal.outer(state.z, state.z),
                state.z < sampler.L,
            )

    return sampled(tuple(a.astype(float) for a in p) for p in parts()), np.mean(gammas)


# ---------------------------------------------------------------- exact


N, EXACT = sweeps(15_000, 0.015)
MOVES = {"all": {}, "documents": dict(n_near=1, split_merge=0), "clusters": dict(split_merge=3)}


@pytest.mark.parametrize(
    "case, moves",
    [
        (case, moves)
        if moves == "all" or case == "full"
        else pytest.param(case, moves, marks=pytest.mark.slow)
        for case in TINY
        for moves in MOVES
    ],
)
def test_exact_posterior(case, moves, monkeypatch):
    "Documents in one cluster, words that are global, tokens in one topic, tokens in global topics."
    if moves == "clusters":  # without the kernel of single documents, compiled or not
        monkeypatch.setattr(nested_sampler, "move_documents", lambda *arguments: 0)
        monkeypatch.setattr(nested_sampler, "sweep_nested", nested_sampler.sweep_nested.py_func)
    estimates, _ = collect(make_sampler(TINY[case], **MOVES[moves]), N)
    clusters, words, topics, tokens = largest_error(estimates, Posterior(TINY[case]).mean)
    assert max(clusters, topics) < EXACT and max(words, tokens) < 2 * EXACT  # words change slowly


@pytest.mark.parametrize("case", ["full", "no word selection", "nested"])
@pytest.mark.parametrize("moves", ["documents", "clusters"])
def test_the_same_check_rejects_moves_that_are_half_a_nat_off(case, moves, monkeypatch):
    "Half a nat for every cluster in use, in one kind of moves: gamma is e^(1/2) as large there."
    names = {"documents": "move_documents", "clusters": "move_clusters"}

    def shifted(rng, state, *others):
        state.conc_cluster[()] *= np.exp(0.5)
        done = getattr(nested_moves, names[moves])(rng, state, *others)
        state.conc_cluster[()] *= np.exp(-0.5)
        return done

    for name in names.values():
        monkeypatch.setattr(nested_sampler, name, lambda *arguments: 0)
    monkeypatch.setattr(nested_sampler, names[moves], shifted)
    monkeypatch.setattr(nested_sampler, "sweep_nested", nested_sampler.sweep_nested.py_func)
    estimates, _ = collect(make_sampler(TINY[case], **MOVES[moves]), 6000)
    assert largest_error(estimates, Posterior(TINY[case]).mean)[0] > 0.03


def test_exact_with_gamma_free():
    exact = Posterior(TINY["nested"], prior=(2, 1))
    estimates, gamma = collect(make_sampler(TINY["nested"], prior=(2, 1)), N)
    assert max(largest_error(estimates, exact.mean)) < EXACT and abs(gamma / exact.gamma - 1) < 0.05


@pytest.mark.parametrize("kind", ["words", "nested"])
def test_exact_with_eta_free(kind):
    "Against the enumeration on a grid of eta."
    model = Model([[0, 0], [1, 2], [1]], 3, 2, 2, 1.3, 0.7, 1.2, 0.4, kind)
    grid, total, mean, together = np.exp(np.linspace(np.log(1e-3), 2.5, 40)), 0.0, 0.0, 0.0
    for eta in grid:
        model.eta = eta
        for c, q, z in model.configurations():
            weight = eta**2 * np.exp(model.log_joint(c, q, z) - 2 * eta)  # one eta for d log eta
            total += weight
            mean += weight * eta
            together += weight * np.equal.outer(c, c)
    model.eta = 0.4
    sampler, etas = make_sampler(model, eta_prior=(2, 2)), []
    found = np.zeros((3, 3))
    for state, _ in states_of(sampler, N):
        etas.append(float(state.eta))
        found += np.equal.outer(state.c, state.c) / N
    assert abs(np.mean(etas) / (mean / total) - 1) < 2 * EXACT
    assert np.abs(found - together / total).max() < EXACT


LC = Model(
    [[0, 0], [0, 1], [1]], 2, 3, 2, 1.0, 1.0, 1.2, 0.4, "topics", shared=True
)  # with every document a cluster, the LC-HDP


@pytest.mark.parametrize(
    "model, categories, c", [(TINY["full"], ["b", "z", "b"], (0, 1, 0)), (LC, [0, 1, 2], (0, 1, 2))]
)
def test_known_categories(model, categories, c):
    "Clusters given: topics and words against the enumeration with these clusters only."
    estimates, _ = collect(make_sampler(model, categories=categories), N)
    assert (
        max(largest_error(estimates, Posterior(model, weigh=lambda other: float(other == c)).mean))
        < EXACT
    )


PAIR = Model([[0], [1]], 2, 2, 1, 1.0, 1.0, 0.5, 0.2, "nested")


@pytest.mark.parametrize(
    "mistake, model",
    [
        ("epsilon", Model([[0, 0], [0, 1], [1]], 2, 2, 1, 1.3, 0.7, 1.2, 0.4, "topics")),
        ("minus one", PAIR),
        pytest.param(
            "reverse",
            Model([[0, 0], [1, 1, 2]], 3, 1, 3, 1.0, 1.0, 1.0, 0.1),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_same_check_rejects_wrong_samplers(mistake, model):
    "Equation 13 as printed, m_k - 1 in every cluster, flips without the way back."

    def error(mistake):
        twin = Gibbs(**vars(model), rng=np.random.default_rng(0), mistake=mistake)
        return max(largest_error(sampled(twin.sweep() for _ in range(4000)), exact))

    exact = Posterior(model).mean
    assert error(None) < 0.05 < 0.06 < error(mistake)


def test_the_exported_enumeration():
    "Against the oracle, which has every configuration and the joint in code of its own."
    model = TINY["full"]
    case = NestedCase(model.docs, 3, 2, 2, 1.3, 0.7, 1.2, 0.4)
    exact, (together, words, topics, _) = exact_nested(case), Posterior(model).mean
    pairs = lambda a: a[np.triu_indices(len(a), 1)]
    assert np.allclose(exact.mean, np.concatenate([pairs(together), words, pairs(topics)]))
    assert np.isclose(exact.weight.sum(), 1) and len(exact.weight) == len(exact.c)
    configurations = list(nested_configurations(case))
    logs = [nested_log_joint(*at, case) for at in configurations[::97]]
    flat = lambda z: [t for row in z for t in row]
    oracle = [model.log_joint(c, q, flat(z)) for c, q, z in configurations[::97]]
    assert np.allclose(np.diff(logs), np.diff(oracle))  # up to the truncation's constant


def test_concentration():
    """Slice sampling against quadrature, for a finite K; Escobar and West's update, which is for
    infinitely many, is rejected.
    """
    m_k, shape, rate, rng = np.array([5, 3, 1, 0]), 2.0, 1.0, np.random.default_rng(0)
    gamma = np.exp(np.linspace(-30, 5, 20_000))
    density = (
        shape * np.log(gamma)
        - rate * gamma
        + gammaln(gamma)
        - gammaln(gamma + 9)
        + (gammaln(m_k[:, None] + gamma / 4) - gammaln(gamma / 4)).sum(axis=0)
    )
    exact = gamma @ np.exp(density) / np.exp(density).sum()
    chain, west, prior = [1.0], [1.0], as_prior("prior", (shape, rate))
    for _ in range(20_000):
        chain.append(slice_cluster_concentration(rng, chain[-1], m_k, prior))
        west.append(resample_concentration(rng, west[-1], (9,), 3, prior))
    assert abs(np.mean(chain) / exact - 1) < 0.04 < 0.08 < abs(np.mean(west) / exact - 1)


@pytest.mark.parametrize("case", TINY)
def test_log_mixture(case):
    "Words under the clusters' mean distributions, as predictions have them."
    model = TINY[case]
    sampler, rng = make_sampler(model), np.random.default_rng(0)
    state = sampler.init(rng)
    for _ in range(4):
        state, info = sampler.sweep(rng, state)
    counts = sampler.snapshot(state)
    predictive = nested_predictive(counts, model.K, model.L, model.alpha, model.beta)
    own = np.repeat(counts.c, sampler.corpus.doc_lengths)
    if not model.shared:  # predictions are for clusters with an epsilon of their own
        assert np.isclose(info["log_mixture"], predictive.log_p[sampler.corpus.x, own].sum())


@pytest.mark.parametrize("case", TINY)
def test_log_joint(case):
    model = TINY[case]
    sampler = make_sampler(model)
    state, s = list(states_of(sampler, 4))[-1]
    ours = _log_words(sampler.data.words, s, sampler.eta) + _log_rest(s, sampler.prior, model.gamma)
    assert np.isclose(
        ours,
        model.log_joint(
            state.c.tolist(),
            state.q.tolist(),
            [(z // model.L, z % model.L) for z in state.z.tolist()],
        ),
    )


# ---------------------------------------------------------------- Geweke: everything free


@pytest.mark.parametrize("wrong", [None, "gamma", "eta"])
def test_geweke(wrong):
    "The prior of one concentration is not that of the chain: this must be seen."
    lengths, V, K, L, a, b = [3, 0, 2, 3], 3, 3, 2, 1.5, 0.8
    offsets, prior = np.append(0, np.cumsum(lengths)), (2.0, 2.0)
    document = np.repeat(np.arange(4), lengths)

    def prior_draw(rng):
        gamma, eta = rng.gamma(prior[0], size=2) / prior[1]
        q = np.zeros(V, np.int64)
        while not 0 < q.sum() < V:  # pi and q jointly truncated
            pi = rng.beta(a, b)
            q = (rng.random(V) < pi).astype(np.int64)
        c = rng.choice(K, size=4, p=rng.dirichlet(np.full(K, gamma / K)))
        eps, w = (
            rng.beta(a, b, size=K),
            np.array([rng.dirichlet(np.full(L, (a if s == 0 else b) / L)) for s in range(K + 1)]),
        )
        s = np.where(rng.random(len(document)) < eps[c[document]], 0, c[document] + 1)
        z = np.array([r * L + rng.choice(L, p=w[r]) for r in s])
        return NestedState(z, c, q, *map(np.array, (pi, gamma, eta, 0)))

    def data_draw(rng, state):
        "Words given topics: an urn over the support of each."
        seen, x = np.zeros(((K + 1) * L, V)), np.zeros(len(document), np.int32)
        for i, t in enumerate(state.z):
            weight = (seen[t] + state.eta) * (state.q == (1 if t < L else 0))
            x[i] = rng.choice(V, p=weight / weight.sum())
            seen[t, x[i]] += 1
        return x

    def sweep(rng, state, x):
        priors = {name: (4.0, 2.0) if name == wrong else prior for name in ("gamma", "eta")}
        sampler = NestedSampler(
            Corpus(x, offsets, n_words=V),
            K,
            L,
            a,
            b,
            conc_cluster_prior=priors["gamma"],
            eta_prior=priors["eta"],
        )
        return sampler.sweep(rng, state)[0]

    def statistics(state, x):
        return {
            "gamma": float(state.conc_cluster),
            "eta": float(state.eta),
            "pi": float(state.pi),
            "clusters": float(len(set(state.c.tolist()))),
            "global words": float(state.q.sum()),
            "global tokens": float((state.z < L).sum()),
            "topics": float(len(set(state.z.tolist()))),
            "same": float((np.bincount(x) ** 2).sum()),
            "both": float(state.q.sum() * (state.z < L).sum()),
        }

    z = joint_distribution_test(
        np.random.default_rng(0),
        prior_draw,
        data_draw,
        sweep,
        statistics,
        n_draws=300 if wrong else 1000,
        n_rounds=3,
    )
    assert abs(z[wrong]) > 6 if wrong else max(map(abs, z.values())) < 4, z


# ---------------------------------------------------------------- bookkeeping

VARIANTS = {
    "full": {},
    "no selection": {"word_selection": False},
    "nested": {"global_topics": False},
    "known": {"categories": np.arange(40) % 3},
    "LC-HDP": {"categories": np.arange(40), "word_selection": False, "shared_epsilon": True},
}
corpus40 = make_nested(n_docs=40, doc_len=20, random_state=0)[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_counts_after_every_sweep(variant):
    corpus = Corpus.from_docs([*(corpus40[j] for j in range(38)), [], [3]], n_words=61)
    sampler = NestedSampler(corpus, 12, 5, eta=0.2, **VARIANTS[variant])
    document, K, L = np.repeat(np.arange(40), corpus.doc_lengths), sampler.K, 5
    for state, s in states_of(sampler, 6):
        measure = state.z // L
        assert (
            (measure == 0) | (measure == state.c[document] + 1)
        ).all()  # topics are global or of the document's cluster
        sides = state.q[corpus.x]
        assert (
            (sides == BOTH) | ((measure == 0) == (sides == GLOBAL))
        ).all()  # and of the word's side
        n = np.zeros_like(s.n)
        np.add.at(n, (measure, corpus.x, state.z % L), 1)
        assert (n == s.n).all() and (n.sum(axis=1) == s.n_l).all()
        assert (np.bincount(state.c, minlength=K) == s.m_k).all()
        side = np.zeros((K, 2), int)
        np.add.at(side, (state.c[document], (measure == 0).astype(int)), 1)
        assert (side == s.side).all()
        if variant == "full":
            assert (
                (s.S == [(state.q == LOCAL).sum(), (state.q == GLOBAL).sum()]).all()
                and (s.S > 0).all()
                and (s.n_s == s.n_l.sum(axis=1)).all()
            )
        if variant in ("known", "LC-HDP"):
            assert (state.c == VARIANTS[variant]["categories"]).all()


def test_moves_of_documents_and_clusters_find_the_clusters():
    "Twelve clusters, from one and from many; before moves were collapsed 6 to 59 were found."
    corpus, _ = make_nested(n_docs=300, n_words=(60, 60), n_clusters=12, random_state=3)
    for begin in (1, 100):
        sampler = NestedSampler(corpus, n_topics=10, eta=0.2, init=begin)
        chain = run_chain(sampler, np.random.default_rng(0), 60)
        assert abs(chain.trace["n_clusters"][-1] - 12) <= 1
        assert adjusted_rand_score(corpus.groups["cluster"], chain.state.c) > 0.95
        assert chain.trace["document_moves"].sum() > 0
        assert chain.trace["split_merge_accepted"].sum() > 0


def test_seeds_reproduce_and_resume_is_identical(tmp_path):
    run = lambda n, **kw: run_chain(
        NestedSampler(corpus40, 10, 4), np.random.default_rng(7), n, thin=3, **kw
    )
    whole, again = run(12), run(12)
    run(5, checkpoint=tmp_path / "c.npz", checkpoint_every=2)
    resumed = run(12, checkpoint=tmp_path / "c.npz")
    for other in (again, resumed):
        assert all(np.array_equal(a, b) for a, b in zip(whole.state, other.state))
        assert all(np.array_equal(whole.trace[name], other.trace[name]) for name in whole.trace)
        assert all(
            np.array_equal(a, b) for s, r in zip(whole.samples, other.samples) for a, b in zip(s, r)
        )
    with pytest.raises(ValueError, match="c.npz"):
        run_chain(
            NestedSampler(corpus40, 10, 4, word_selection=False),
            np.random.default_rng(7),
            12,
            thin=3,
            checkpoint=tmp_path / "c.npz",
        )


def test_the_same_without_the_compiler(tmp_path):
    "NUMBA_DISABLE_JIT=1 runs the kernels as plain Python, and must give the same chain."
    script = """
import sys
import numpy as np
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.nested.sampler import NestedSampler
from hdp_nb.corpora.synthetic import make_nested
corpus = make_nested(n_docs=12, doc_len=8, n_words=(6, 6), random_state=0)[0]
state = run_chain(NestedSampler(corpus, 6, 3), np.random.default_rng(1), 3).state
np.savez(sys.argv[1], **state._asdict())
"""
    subprocess.run(
        [sys.executable, "-c", script, tmp_path / "plain.npz"],
        check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    corpus = make_nested(n_docs=12, doc_len=8, n_words=(6, 6), random_state=0)[0]
    state = run_chain(NestedSampler(corpus, 6, 3), np.random.default_rng(1), 3).state
    with np.load(tmp_path / "plain.npz") as plain:
        assert all(
            np.array_equal(plain[name], a)
            for name, a in state._asdict().items()
            if a.dtype.kind == "i"
        )
        assert np.allclose(plain["pi"], state.pi, rtol=1e-9) and np.allclose(
            plain["conc_cluster"], state.conc_cluster, rtol=1e-9
        )


def test_topics_of_tiny_eta():
    "A topic is one word then: two words that a document has are two topics, and nothing overflows."
    docs = [[0] * 400 + [1] * 400, [0] * 300, [], [1]]
    for options in ({}, {"word_selection": False}, {"global_topics": False}):
        sampler = NestedSampler(Corpus.from_docs(docs, n_words=3), 3, 2, eta=1e-3, **options)
        chain = run_chain(sampler, np.random.default_rng(0), 30)
        assert np.isfinite(chain.trace["log_joint"]).all()
    one = chain.state.z[:800] // 2
    assert (one == one[0]).all() and len(set(chain.state.z[:800].tolist())) == 2


def test_term_variance():
    X = sp.csr_array(np.random.default_rng(0).integers(0, 4, (9, 5)))
    assert np.allclose(term_variance(X), 9 * X.toarray().var(axis=0))


def test_where_chains_begin():
    """Every document in the cluster that `init` says, or with one of so many seeds; topics below
    `init_topics`; categories leave no choice.
    """
    start = lambda **options: NestedSampler(corpus40, 12, 5, **options).init(
        np.random.default_rng(0)
    )
    labels = np.array(list("yxz"))[np.arange(40) % 3]
    assert (
        start(init=labels, init_topics=2).c == np.array([1, 0, 2])[np.arange(40) % 3]
    ).all() and (start(init=labels, init_topics=2).z % 5).max() == 1
    assert (
        len(np.unique(start(init=1).c))
        == 1
        < len(np.unique(start(init=3).c))
        <= 3
        < len(np.unique(start(init=99).c))
        <= 12
    )
    assert all(np.array_equal(a, b) for a, b in zip(start(), start(init=7)))  # of 40 documents
    for options in (
        {"init": 3, "categories": labels},
        {"init": np.arange(40)},
    ):  # known clusters; 40 clusters of 12
        with pytest.raises(ValueError, match="^init must"):
            start(**options)


@pytest.mark.parametrize(
    "argument, value",
    [
        ("eta", 0),
        ("eta", 1e-4),
        ("eta_prior", (1,)),
        ("conc_global", 0),
        ("conc_local", -1),
        ("conc_cluster", np.nan),
        ("conc_cluster_prior", (1,)),
        ("n_clusters", 0),
        ("n_topics", 2.5),
        ("n_near", 0),
        ("split_merge", -1),
        ("n_flips", -1),
        ("init", 0),
        ("init", [0, 1]),
        ("init_topics", 0),
        ("categories", [1, 2]),
        ("shared_epsilon", True),
    ],
)
def test_bad_arguments(argument, value):
    with pytest.raises(ValueError, match=f"^{argument}"):
        NestedSampler(corpus40, **{argument: value})
    with pytest.raises(ValueError, match="2 words or more"):
        NestedSampler(Corpus.from_docs([[0, 0]]))


# ---------------------------------------------------------------- new documents


@pytest.fixture(scope="module")
def kept():
    sampler = NestedSampler(corpus40, 8, 4, 1.3, 0.6, eta=0.2)
    state = run_chain(sampler, np.random.default_rng(0), 10).state
    return (
        sampler.snapshot(state),
        state,
        nested_predictive(sampler.snapshot(state), 8, 4, 1.3, 0.6),
    )


def test_predictive(kept):
    """Word probabilities of a cluster from the counts, topic by topic as (N3) says, unused ones
    and empty clusters included.
    """
    counts, state, predictive = kept
    corpus, L, V = corpus40, 4, corpus40.n_words
    document = np.repeat(np.arange(40), corpus.doc_lengths)
    assert np.allclose(np.exp(predictive.log_p).sum(axis=0), 1) and np.isclose(
        np.exp(predictive.log_w).sum(), 1
    )
    used, M, gamma = np.unique(state.c), 40, float(state.conc_cluster)
    for i, k in enumerate([*used, None]):
        g = (state.z[state.c[document] == k] < L).sum() if k is not None else 0
        h = (state.z[state.c[document] == k] >= L).sum() if k is not None else 0
        eps, p = (1.3 + g) / (1.9 + g + h), np.zeros(V)
        for s, a, part in ((0, 1.3, eps), (-1 if k is None else k + 1, 0.6, 1 - eps)):
            support = state.q == (1 if s == 0 else 0)
            n_s = (state.z // L == s).sum()
            for l in range(L):
                n = (
                    np.bincount(corpus.x[state.z == s * L + l], minlength=V)
                    if s >= 0
                    else np.zeros(V)
                )
                p += (
                    part
                    * (n.sum() + a / L)
                    / (n_s + a)
                    * (n + 0.2)
                    * support
                    / (n.sum() + 0.2 * support.sum())
                )
        assert np.allclose(np.exp(predictive.log_p[:, i]), p)
        m = gamma * (1 - len(used) / 8) if k is None else (state.c == k).sum() + gamma / 8
        assert np.isclose(np.exp(predictive.log_w[i]), m / (M + gamma))


def test_topic_proportions(kept):
    "Token by token; an empty document has those of the prior."
    counts, _, p = kept
    X = sp.csr_array(np.array([np.bincount([0, 40, 40, 7], minlength=60), np.zeros(60, int)]))
    member = memberships(p, X)
    assert np.allclose(
        member,
        np.exp(log_in_clusters(p, X) - logsumexp(log_in_clusters(p, X), axis=1, keepdims=True)),
    ) and np.allclose(member[1], np.exp(p.log_w))
    expected = np.zeros((2, len(counts.cluster)))
    for k in range(member.shape[1]):
        weight = p.share * np.where(
            counts.cluster < 0, p.eps[k], (1 - p.eps[k]) * (counts.cluster == k)
        )
        expected[0] += member[0, k] * sum(
            weight * p.phi[:, v] / np.exp(p.log_p[v, k]) for v in (0, 40, 40, 7)
        )
        expected[1] += member[1, k] * weight
    assert np.allclose(
        topic_proportions(p, counts.cluster, X),
        expected / expected.sum(axis=1, keepdims=True),
        atol=1e-7,
    )


# ---------------------------------------------------------------- estimators

quick = dict(n_clusters=12, n_topics=4, eta=0.2, n_iter=12, thin=2, random_state=0)


def test_recovers_clusters_and_sides():
    corpus, _ = make_nested(random_state=1)
    model = HNHDP(**{**quick, "n_clusters": 20, "n_iter": 60}).fit(corpus)
    assert adjusted_rand_score(corpus.groups["cluster"], model.labels_) > 0.9
    assert ((model.word_global_ > 0.5) == (np.arange(60) < 30)).mean() > 0.8


@pytest.mark.parametrize(
    "model",
    [
        HNHDP(init=np.arange(40) % 9, **quick),
        HNHDP(word_selection=False, n_chains=2, **quick),
        NestedDP(**quick),
        HNHDP(categories="cluster", **quick),
    ],
)
def test_results(model, tmp_path):
    model = clone(model).fit(corpus40)
    T, C = model.n_topics_, model.n_clusters_
    assert (
        model.components_.shape == (T, 60)
        and np.allclose(model.components_.sum(axis=1), 1)
        and model.topic_shares_.sum() < 1 + 1e-9
    )
    assert model.cluster_components_.shape == (C, 60) and np.allclose(
        model.cluster_components_.sum(axis=1), 1
    )
    assert (
        model.labels_.shape == (40,)
        and set(model.labels_) == set(range(C))
        and set(model.topic_cluster_) <= {-1, *range(C)}
    )
    if model.categories is None:
        assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    else:
        assert (model.categories_[model.labels_] == corpus40.groups["cluster"]).all()
    if isinstance(model, NestedDP):
        assert -1 not in model.topic_cluster_ and not model.global_share_.any()
    sides = len(model.global_words_) + len(model.local_words_)
    assert sides == (0 if isinstance(model, HNHDP) and not model.word_selection else 60)
    together = model.co_clustering()
    assert (
        together.shape == (40, 40)
        and (together.diagonal() == 1).all()
        and (together == together.T).all()
    )
    same = model.labels_[:, None] == model.labels_
    assert together[same].mean() > together[~same].mean() + 0.5 if C > 1 else True
    pi = model.transform(corpus40)
    assert pi.shape == model.doc_topic_.shape == (40, T + 1)
    assert np.allclose(model.doc_topic_.sum(axis=1), 1)
    assert np.corrcoef(pi.ravel(), model.doc_topic_.ravel())[0, 1] > 0.6  # inferred anew
    assert (model.transform(corpus40[3:5]) == pi[3:5]).all()
    probability = model.cluster_proba(corpus40)
    assert probability.shape == (40, C + 1) and np.allclose(probability.sum(axis=1), 1)
    if model.categories is None:
        assert (model.predict(corpus40) == model.labels_).mean() > 0.7
    assert (
        len(model.samples_) == len(model.sample_chain_) == 3 * model.n_chains
        and len(model.top_words(3)) == T
    )
    model.save(tmp_path / "m.npz")
    loaded = type(model).load(tmp_path / "m.npz")
    assert (
        loaded.score(corpus40) == model.score(corpus40)
        and (loaded.labels_ == model.labels_).all()
        and loaded.global_words_ == model.global_words_
    )
    assert set(model.trace_) == {
        "n_clusters",
        "log_joint",
        "log_likelihood",
        "n_topics",
        "n_global_topics",
        "n_global_words",
        "global_share",
        "conc_cluster",
        "eta",
        "accepted",
        "log_mixture",
        "share_1",
        "share_2",
        "share_3",
        "document_moves",
        "split_merge_accepted",
    }


def test_chains_begin_apart_and_say_whether_they_agree():
    corpus, _ = make_nested(n_docs=150, random_state=1)
    options = dict(n_topics=5, eta=0.2, n_iter=60, random_state=0)
    model = HNHDP(**options).fit(corpus)
    assert model.traces_["n_clusters"][0, 0] < model.traces_["n_clusters"][1, 0]
    assert {"n_clusters", "share_1", "log_mixture"} <= set(model.convergence_)
    assert (model.traces_["n_clusters"][:, -1] == 4).all()
    assert HNHDP(**options, n_chains=1).fit(corpus).converged_ is None
    with pytest.warns(ConvergenceWarning, match="n_clusters = 2 clusters are in use"):
        NestedDP(n_clusters=2, n_topics=5, n_iter=10, random_state=0).fit(corpus)
    with pytest.raises(ValueError, match='^init must be "opposite", None'):
        HNHDP(init="far").fit(corpus)


def test_co_clustering_by_blocks_and_sparse():
    model = HNHDP(**quick).fit(corpus40)
    whole = model.co_clustering()
    assert (model.co_clustering([3, 5]) == whole[[3, 5]]).all()
    assert (model.co_clustering(slice(10)) == whole[:10]).all()
    sparse = model.co_clustering(least=0.4)
    assert sp.issparse(sparse) and (sparse.toarray() == np.where(whole >= 0.4, whole, 0)).all()
    with pytest.raises(ValueError, match="^least"):
        model.co_clustering(least=0)


def test_a_document_without_tokens_has_no_cluster():
    model = HNHDP(**quick).fit(corpus40)
    new = Corpus.from_docs([[], [0, 1]], n_words=60)
    assert model.predict(new)[0] == -1 <= 0 <= model.predict(new)[1]
    one = model.one_sample()
    sizes = np.bincount(one.labels_) + one.conc_cluster_ / 12
    expected = sizes / (40 + one.conc_cluster_)
    assert np.allclose(one.cluster_proba(new)[0, :-1], expected)


def part_of(labels, members):
    "The label that more than half of some documents have, -1 if there is none."
    n = np.bincount(labels[members])
    return int(n.argmax()) if 2 * n.max() > n.sum() else -1


def test_doubt_is_in_the_probabilities_of_clusters():
    """They are averages over samples, each cluster of which is a part of one that is shown, or of
    none; those of one sample, as a control, say nothing of the others.
    """
    corpus, _ = make_nested(80, 8, n_clusters=6, random_state=2)
    model = NestedDP(n_clusters=12, n_topics=3, n_iter=40, random_state=0).fit(corpus)
    C, proba, expected = model.n_clusters_, model.cluster_proba(), np.zeros((80, model.n_clusters_))
    for sample in model.samples_:
        for k in range(len(sample.m_k)):
            members = np.flatnonzero(sample.c == k)
            if (to := part_of(model.labels_, members)) >= 0:
                expected[members, to] += 1 / len(model.samples_)
    assert np.allclose(proba[:, :C], expected) and np.allclose(proba.sum(axis=1), 1)
    assert 0.3 < proba[:, :C].max(axis=1).mean() < 0.98
    assert (model.one_sample().cluster_proba().max(axis=1) == 1).all()
    there = model.cluster_draws()
    for row, sample in zip(there, model.samples_):
        for k in range(C):
            both = np.bincount(sample.c[model.labels_ == k], minlength=len(sample.m_k))
            size = sample.m_k + (model.labels_ == k).sum() - both  # in either
            same = np.flatnonzero(2 * both > size)
            assert row[k] == (sample.m_k[same[0]] / 80 if len(same) else 0)
    chains = [(there > 0)[model.sample_chain_ == c].mean(axis=0) for c in {*model.sample_chain_}]
    assert np.allclose(model.cluster_existence_, np.mean(chains, axis=0))


def clusters_without_topics(model):
    "Clusters with local tokens none of whose topics in the sample that is shown are shown."
    sample, to = model.samples_[model.best_], model._matched()[model.best_]
    known = np.unique(sample.cluster[sample.cluster >= 0])
    return len(set(known.tolist()) - {*sample.cluster[to < model.n_topics_].tolist()})


@pytest.mark.parametrize("kind", [NestedDP, HNHDP])
def test_clusters_topics_and_trace_are_of_one_chain(kind, monkeypatch):
    "A topic need not exist in half of the samples where its cluster would have none."
    corpus, _ = make_nested(80, 8, n_clusters=6, random_state=2)
    options = dict(n_clusters=12, n_topics=3, n_iter=40, n_chains=3)
    without = []
    for seed in range(3):
        model = kind(**options, random_state=seed).fit(corpus)
        of = model.sample_chain_[model.best_]
        assert np.array_equal(model.trace_["log_joint"], model.traces_["log_joint"][of])
        assert clusters_without_topics(model) == 0
        assert model.components_.shape[0] == model.n_topics_ == len(model.existence_)
        assert model.consensus_as_shown().n_components >= np.sum(model.existence_ > 0.5)
        with monkeypatch.context() as plain:
            plain.delattr(kind.__mro__[1], "_rows")
            model._show()
        without.append(clusters_without_topics(model))
    assert max(without) > 0


def test_scores():
    """Whole documents add up one token after the other, each given those before it, if
    probabilities are averaged as item 49 has it.
    """
    model = HNHDP(**{**quick, "n_iter": 4, "burn_in": 3, "n_chains": 1}).fit(corpus40)
    doc = corpus40[:1]
    one_by_one = 0.0
    for i in range(20):
        before, here = (
            Corpus(doc.x[:i], np.array([0, i]), n_words=60),
            Corpus(doc.x[i : i + 1], np.array([0, 1]), n_words=60),
        )
        one_by_one += model.log_predictive(before, here)[0]
    assert np.isclose(model.score_samples(doc)[0], one_by_one)
    assert np.isclose(model.score(corpus40), document_completion(model, corpus40, random_state=0))
    with pytest.raises(ValueError, match="heldout"):
        model.log_predictive(corpus40, doc)
    assert np.isclose(
        left_to_right(model, corpus40), model.score_samples(corpus40).sum() / corpus40.n_tokens
    )
    with pytest.raises(
        TypeError, match="HNHDP has no posterior_topics"
    ):  # a document has a cluster, not proportions of its own
        model.posterior_topics(corpus40)


class Whole:
    """scikit-learn's checks feed fractions, which a model of counts must refuse; so round them up
    first.
    """

    def _corpus(self, X, reset=False):
        if not isinstance(X, Corpus):
            try:
                X = sp.csr_array(X).ceil() if sp.issparse(X) else np.ceil(X)
            except TypeError:
                pass
        return super()._corpus(X, reset)


class WholeHNHDP(Whole, HNHDP):
    pass


@parametrize_with_checks([WholeHNHDP(n_clusters=4, n_topics=2, n_iter=2, thin=1, n_chains=1)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("make", [partial(HNHDP, **quick), partial(NestedDP, **quick)])
@pytest.mark.parametrize(
    "argument, value",
    [
        ("n_clusters", 0),
        ("n_topics", "x"),
        ("eta", 0),
        ("conc_cluster", (1, 1)),
        ("init", -1),
        ("categories", "book"),
        ("categories", [0, 1]),
        ("n_iter", 0),
    ],
)
def test_bad_input(make, argument, value):
    with pytest.raises(ValueError, match=argument):
        make(**{argument: value}).fit(corpus40)


def test_loads_only_its_own(tmp_path):
    HNHDP(**quick).fit(corpus40).save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="NestedDP"):
        NestedDP.load(tmp_path / "m.npz")


@pytest.mark.parametrize("model", ["NestedDP", "HNHDP"])
def test_quick_start(model, tmp_path, monkeypatch):
    check_quick_start(model, tmp_path, monkeypatch)
