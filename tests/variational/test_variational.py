"""The variational bound and its kernels against dense formulas, finite differences and Monte
Carlo; batch inference and VariationalHDP.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from naive_variational import expected_log, full_bound, log_dirichlet
from numba import njit
from quickstart import check_quick_start
from scipy.special import digamma, gammaln
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation.scores import Unigram, document_completion
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.priors import Gamma, LogNormal
from hdp_nb.models.variational_models import VariationalHDP
from hdp_nb.variational import e_step as e_step_module
from hdp_nb.variational.bound import (
    VariationalState,
    _alpha_terms,
    _eta_slopes,
    first_state,
    global_bound,
    topic_bound,
    update_alpha,
    update_beta,
    update_eta,
    update_gamma,
)
from hdp_nb.variational.e_step import (
    EStepRules,
    Hyperpriors,
    add_eight,
    best_of_two,
    distinct_words,
    doc_topics,
    e_step,
    exp_digamma,
    fit_batch,
    make_batch,
    take,
    topic_factors,
    topic_statistics,
)
from hdp_nb.variational.online import infer, predict_tokens

EXACT = EStepRules(tol=1e-13, max_iter=3000, drop=0.0)


class Case:
    def __init__(self, seed=0, J=5, V=7, K=3, alpha=1.7, gamma=0.8, eta=0.4):
        rng = np.random.default_rng(seed)
        self.X = rng.poisson(1.5, (J, V))
        self.X[2] = 0  # an empty document
        self.X[:, 3] = 0  # a word that never occurs
        self.lam, self.beta = eta + rng.gamma(1, 2, (V, K)), rng.dirichlet(np.ones(K + 1))
        self.alpha, self.gamma, self.eta, self.K, self.V = alpha, gamma, eta, K, V
        self.state = VariationalState(self.lam, self.beta, *map(np.array, (alpha, gamma, eta)))
        self.docs = distinct_words(Corpus.from_matrix(self.X))
        self.batch = make_batch(self.docs, V)
        self.E = topic_factors(self.lam, self.batch)

    def found(self, n_jobs=None, **options):
        rules, weight = EXACT._replace(**options), self.alpha * self.beta[:-1]
        return e_step(self.batch, self.E, weight, self.alpha, rules=rules, n_jobs=n_jobs)

    def dense(self, found):
        "Responsibilities (J, V, K), uniform where there is no word."
        resp = np.full((*self.X.shape, self.K), 1 / self.K)
        for i, (j, v) in enumerate(zip(self.batch.doc, self.docs.words)):
            resp[j, v] = 1e-300
            act = found.active[j, : found.n_active[j]]
            resp[j, v, act] = (
                self.E[self.batch.rows[i], act] * found.e_jk[j, : len(act)] / found.norm[i]
            )
        return resp


@pytest.fixture(scope="module")
def case():
    return Case()


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_docs=150, doc_len=60, grid=5, n_test=50, concentration=2.0, random_state=0)


def test_exp_digamma():
    x = np.concatenate([np.geomspace(2e-3, 1e12, 4000), [1.0, 0.5, 3.0]])
    assert abs(np.array([exp_digamma(v) for v in x]) / np.exp(digamma(x)) - 1).max() < 3e-8
    assert exp_digamma(1e-6) < 1e-300  # as the true value underflows
    assert 0 <= exp_digamma(5e-324) < 1e-300 and 0 <= exp_digamma(0.0) < 1e-300


@njit
def compiled_add_eight(E, rows, counts, i, e, t, norm):
    add_eight(E, rows, counts, i, e, t, norm)


@pytest.mark.parametrize("length", [8, 16, 120])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_eight_words_at_a_time(length, kind):
    "Compiled and plain to the last bit; rows may be longer than the vector, and occur twice."
    rng, rows = np.random.default_rng(length), np.array([0] * 8 + [4, 0, 2, 2, 3, 1, 0, 4], kind)
    E, e, t = 10 ** rng.normal(0, 5, (5, 120)), rng.random(length), rng.normal(size=length)
    counts, (plain, quick) = rng.integers(0, 3, 16).astype(float), np.tile(t, (2, 1))
    norms = np.zeros((2, 16))
    add_eight(E, rows, counts, 8, e, plain, norms[0])
    compiled_add_eight(E, rows, counts, 8, e, quick, norms[1])
    assert np.array_equal(plain, quick) and np.array_equal(*norms) and not norms[0, :8].any()
    X = E[rows[8:], :length]
    assert np.allclose(norms[0, 8:], X @ e, rtol=1e-13)
    assert np.allclose(plain, t + (counts[8:] / norms[0, 8:]) @ X, rtol=1e-13)


def test_e_step_is_a_stationary_point_of_the_full_bound(case):
    found = case.found()
    resp, n = case.dense(found), doc_topics(found, case.K)
    theta = case.alpha * case.beta + np.column_stack([n, np.zeros(len(n))])
    R = np.exp(expected_log(case.lam.T).T[None] + expected_log(theta)[:, None, : case.K])
    seen = case.X > 0
    assert np.allclose(resp[seen], (R / R.sum(-1, keepdims=True))[seen], atol=1e-6)  # (3)
    assert np.allclose(n, np.einsum("jv,jvk->jk", case.X, resp)) and np.allclose(
        theta.sum(1), case.alpha + case.X.sum(1)
    )  # (4)
    resp[~seen] = 1 / case.K
    bound = lambda r, t, m: full_bound(case.X, r, t, m, case.beta, case.alpha, case.eta)
    here, lam5 = bound(resp, theta, case.lam), case.eta + np.einsum("jv,jvk->vk", case.X, resp)
    slope = lambda f, at, e, h=1e-4: (
        (8 * (f(at + h * e) - f(at - h * e)) - f(at + 2 * h * e) + f(at - 2 * h * e)) / (12 * h)
    )

    def unit(shape, at):
        e = np.zeros(shape)
        e[at] = 1.0
        return e

    assert (
        max(
            abs(slope(lambda t: bound(resp, t, case.lam), theta, unit(theta.shape, at)))
            for at in np.ndindex(theta.shape)
        )
        < 1e-6
    )
    assert (
        max(
            abs(slope(lambda m: bound(resp, theta, m), lam5, unit(lam5.shape, at)))
            for at in np.ndindex(lam5.shape)
        )
        < 1e-6
    )
    inner = [(j, v) for j, v in np.argwhere(seen) if resp[j, v].min() > 0.015]
    assert len(inner) > 3
    for j, v in inner:  # along the simplex, away from its edges
        e = unit(resp.shape, (j, v, 0)) - unit(resp.shape, (j, v, 1))
        assert abs(slope(lambda r: bound(r, theta, case.lam), resp, e)) < 2e-6
    terms = np.empty(case.K)
    topic_bound(case.lam, case.eta, terms)
    assert np.isclose(found.bound.sum() + terms.sum(), here, atol=1e-6)
    S = topic_statistics(case.batch, case.E, found, case.K)
    assert np.allclose(S, np.einsum("jv,jvk->vk", case.X, resp)[case.batch.vocab], atol=1e-8)


def test_the_check_finds_a_wrong_theta(case):
    """With K entries in the place of K + 1, as the paper's sums have it, the stationary point is
    another.
    """
    found = case.found()
    n = doc_topics(found, case.K)
    whole = expected_log(case.alpha * case.beta + np.column_stack([n, np.zeros(len(n))]))[
        :, : case.K
    ]
    assert abs(whole - expected_log(case.alpha * case.beta[:-1] + n)).max() > 0.05


def test_terms_by_monte_carlo(case):
    "The documents' and topics' parts of the bound, measured with draws from q."
    rng, found = np.random.default_rng(1), case.found()
    resp = np.clip(case.dense(found), 1e-12, None)
    resp /= resp.sum(-1, keepdims=True)
    theta = case.alpha * case.beta + np.column_stack(
        [doc_topics(found, case.K), np.zeros(len(case.X))]
    )
    draws = []
    for _ in range(1500):
        phi, pi = (
            np.array([rng.dirichlet(a) for a in case.lam.T]),
            np.array([rng.dirichlet(a) for a in theta]),
        )
        n = np.array(
            [[rng.multinomial(x, r) for x, r in zip(row, rs)] for row, rs in zip(case.X, resp)]
        )
        log_pi, log_phi = np.log(np.maximum(pi, 1e-300)), np.log(phi)
        draws.append(
            np.einsum("jvk,kv->", n, log_phi)
            + np.einsum("jvk,jk->", n, log_pi[:, : case.K])
            - (n * np.log(resp)).sum()
            + log_dirichlet(case.alpha * case.beta[None], log_pi).sum()
            - log_dirichlet(theta, log_pi).sum()
            + log_dirichlet(np.full((case.K, case.V), case.eta), log_phi).sum()
            - log_dirichlet(case.lam.T, log_phi).sum()
        )
    terms = np.empty(case.K)
    topic_bound(case.lam, case.eta, terms)
    assert abs(np.mean(draws) - found.bound.sum() - terms.sum()) < 4 * np.std(draws) / np.sqrt(
        len(draws)
    )


def test_unused_topics_cost_nothing(case):
    found, K = case.found(), case.K
    wider = np.append(case.beta[:-1], [1e-12, case.beta[-1] - 1e-12])
    lam = np.column_stack([case.lam, np.full(case.V, case.eta)])
    E = topic_factors(lam, case.batch)
    start = np.column_stack([doc_topics(found, K), np.zeros(len(case.X))])
    again = e_step(case.batch, E, case.alpha * wider[:-1], case.alpha, start, EXACT)
    assert np.allclose(again.bound, found.bound, atol=1e-7)
    terms = np.empty(K + 1)
    topic_bound(lam, case.eta, terms)
    assert terms[-1] == pytest.approx(0, abs=1e-12) and (terms[:-1] < 0).all()


def test_dropping_topics_changes_little(bars):
    docs = distinct_words(bars[0])
    batch, rng = make_batch(docs, 25), np.random.default_rng(0)
    lam = rng.gamma(0.3, 5.0, (25, 30)) + 0.1
    E, weight = topic_factors(lam, batch), np.full(30, 0.03)
    whole, quick = (
        e_step(batch, E, weight, 1.0, rules=EStepRules(1e-5, drop=drop)) for drop in (0.0, 1e-4)
    )
    assert np.median(quick.n_active) < 20 < whole.n_active.min()
    assert (abs(whole.bound - quick.bound) < 0.05).mean() > 0.95 and abs(
        whole.bound.sum() / quick.bound.sum() - 1
    ) < 1e-3


def test_threads_make_no_difference(bars):
    docs = distinct_words(bars[0])
    start = first_state(np.random.default_rng(0), 25, 12, 1.0, 1.0, 0.5)
    priors = Hyperpriors(alpha=(1, 1))
    runs = [fit_batch(docs, start, priors, max_iter=4, n_jobs=n) for n in (1, 2, 3)]
    for state, found, trace in runs[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(state, runs[0][0])) and np.array_equal(
            trace["bound"], runs[0][2]["bound"]
        )
        assert np.array_equal(found.bound, runs[0][1].bound)


@pytest.mark.parametrize("seed, learn", [(0, True), (1, False), (2, True)])
def test_the_bound_never_falls(bars, seed, learn):
    state = first_state(np.random.default_rng(seed), 25, 20, 2.0, 0.7, 0.3)
    priors = Hyperpriors((2, 1), (1, 2), True) if learn else Hyperpriors()
    _, _, trace = fit_batch(distinct_words(bars[0]), state, priors, max_iter=30, tol=0)
    assert len(trace["bound"]) == 30 and np.diff(trace["bound"]).min() > -1e-8 * abs(
        trace["bound"][-1]
    )
    assert trace["bound"][-1] > trace["bound"][0] + 100
    assert (
        (np.ptp(trace["alpha"]) > 0)
        == (np.ptp(trace["gamma"]) > 0)
        == (np.ptp(trace["eta"]) > 0)
        == learn
    )


def test_an_interrupted_fit_keeps_what_it_has(bars, monkeypatch):
    "From the callback, within a pass, and in the first one, when there is nothing yet."
    docs, start = (
        distinct_words(bars[0]),
        first_state(np.random.default_rng(0), 25, 12, 1.0, 1.0, 0.5),
    )
    two = fit_batch(docs, start, max_iter=2, tol=0)

    def stop(i, state):
        if i == 1:
            raise KeyboardInterrupt

    parts, left = e_step_module.topic_statistics, [0]

    def statistics(*args):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return parts(*args)

    stopped = [fit_batch(docs, start, max_iter=9, tol=0, callback=stop)]
    monkeypatch.setattr(e_step_module, "topic_statistics", statistics)
    left[0] = 2
    stopped.append(fit_batch(docs, start, max_iter=9, tol=0))
    for state, found, trace in stopped:
        assert all(np.array_equal(a, b) for a, b in zip(state, two[0])) and np.array_equal(
            found.bound, two[1].bound
        )
        assert trace["bound"].tolist() == two[2]["bound"].tolist()
    left[0] = 0
    with pytest.raises(KeyboardInterrupt):
        fit_batch(docs, start)


def test_hyperparameters_are_at_their_best(case):
    found, lengths = case.found(), case.docs.lengths
    n = doc_topics(found, case.K)

    def urn(alpha, beta):
        w = alpha * beta[:-1]
        return (gammaln(alpha) - gammaln(alpha + lengths)).sum() + (
            gammaln(w + n) - gammaln(w)
        ).sum()

    alpha = update_alpha(found, lengths, case.beta, 1.0, (2, 3), scale=4.0, n_iter=50)
    of_alpha = lambda a: 4 * urn(a, case.beta) + np.log(a) - 3 * a
    assert of_alpha(alpha) > max(of_alpha(alpha * 1.01), of_alpha(alpha / 1.01))
    beta = update_beta(found, case.beta, case.alpha, case.gamma, scale=4.0, n_iter=500)
    of_beta = lambda b: 4 * urn(case.alpha, b) + case.gamma * np.log(b[-1])
    assert np.isclose(beta.sum(), 1)
    for k in range(case.K):  # in log ratios every direction goes down
        for step in (0.99, 1.01):
            other = beta * np.where(np.arange(case.K + 1) == k, step, 1)
            assert of_beta(other / other.sum()) < of_beta(beta)
    of_gamma = lambda g: case.K * np.log(g) + g * np.log(beta[-1]) + (2 - 1) * np.log(g) - 3 * g
    gamma = update_gamma(beta, (2, 3))
    assert of_gamma(gamma) > max(of_gamma(gamma * 1.01), of_gamma(gamma / 1.01))
    of_eta = lambda x: (
        case.K * (gammaln(case.V * x) - case.V * gammaln(x)) + x * expected_log(case.lam.T).sum()
    )
    eta = update_eta(case.lam, 3.0, 50)
    assert of_eta(eta) > max(of_eta(eta * 1.01), of_eta(eta / 1.01))


def test_slopes_of_alpha_and_eta(case):
    "By their logarithms, against differences; of eta half of the tokens have been seen."
    found, lengths = case.found(), case.docs.lengths
    n, seen, h = doc_topics(found, case.K), 0.5 * (case.lam - case.eta), 1e-5

    def urn(alpha):
        w = alpha * case.beta[:-1]
        each = gammaln(w + n) - gammaln(w)
        return (gammaln(alpha) - gammaln(alpha + lengths)).sum() + each.sum()

    def words(x):  # (V10)
        whole = gammaln(case.V * x) - gammaln(case.V * x + seen.sum(0))
        return (gammaln(x + seen) - gammaln(x)).sum() + whole.sum()

    alpha_terms = lambda x: _alpha_terms(*found[:3], lengths, case.beta, x)
    eta_terms = lambda x: (words(x), *_eta_slopes(case.lam, case.eta, 0.5, x))
    assert np.isclose(alpha_terms(1.3)[0], urn(1.3))
    for f, terms in ((urn, alpha_terms), (words, eta_terms)):
        up, down = 1.3 * np.exp(h), 1.3 * np.exp(-h)
        _, slope, curvature = terms(1.3)
        assert np.isclose(slope, (f(up) - f(down)) / (2 * h), rtol=1e-6)
        assert np.isclose(curvature, (terms(up)[1] - terms(down)[1]) / (2 * h), rtol=1e-6)


def test_global_bound(case):
    terms = np.empty(case.K)
    topic_bound(case.lam, case.eta, terms)
    want = terms.sum() + case.K * np.log(case.gamma) + case.gamma * np.log(case.beta[-1])
    assert np.isclose(global_bound(case.state), want)
    assert np.isclose(
        global_bound(case.state, (2, 3), (4, 5)),
        want + np.log(case.alpha) - 3 * case.alpha + 3 * np.log(case.gamma) - 5 * case.gamma,
    )


def test_best_of_two(case):
    one, other = case.found(), case.found(max_iter=1)
    both = best_of_two(case.batch, one, other)
    assert (
        np.array_equal(both.bound, np.maximum(one.bound, other.bound))
        and (both.bound >= one.bound).all()
    )
    assert np.allclose(topic_statistics(case.batch, case.E, both, case.K).sum(), case.X.sum())


def test_taking_documents(case):
    part = take(case.docs, np.array([4, 2, 0]))
    assert (
        part.lengths.tolist() == case.X[[4, 2, 0]].sum(1).tolist()
        and part.offsets[-1] == (case.X[[4, 2, 0]] > 0).sum()
    )
    assert part.words.tolist() == [v for j in (4, 2, 0) for v in np.flatnonzero(case.X[j])]


def test_predictions_are_probabilities(case):
    observed = Corpus.from_matrix(case.X)
    every = Corpus(
        np.tile(np.arange(case.V), len(case.X)), np.arange(len(case.X) + 1) * case.V, n_words=case.V
    )
    p = predict_tokens(observed, every, case.state).reshape(-1, case.V)
    assert np.allclose(p.sum(1), 1)
    pi, phi = infer(case.docs, case.state), case.lam / case.lam.sum(0)
    assert np.allclose(pi.sum(1), 1) and np.allclose(
        pi[2], case.beta
    )  # an empty document has the corpus's weights
    assert np.allclose(p, pi[:, :-1] @ phi.T + pi[:, -1:] / case.V)
    assert np.allclose(
        predict_tokens(observed, every, case.state, unrepresented=False).reshape(-1, case.V),
        pi[:, :-1] @ phi.T,
    )
    assert np.array_equal(predict_tokens(observed, every, case.state, block=2), p.ravel())


# The estimator


def test_variational_hdp(bars):
    corpus, truth = bars
    model = VariationalHDP(n_topics=20, max_iter=40, random_state=0).fit(corpus)
    K = model.n_topics_
    assert (
        10 <= K <= 20
        and model.components_.shape == (K, 25)
        and np.allclose(model.components_.sum(1), 1)
    )
    assert np.isclose(model.topic_shares_.sum(), 1) and (np.diff(model.topic_shares_) <= 0).all()
    assert (
        model.doc_topic_.shape == (150, K + 1)
        and np.allclose(model.doc_topic_.sum(1), 1)
        and np.allclose(model.transform(corpus).sum(1), 1)
    )
    assert np.diff(model.trace_["bound"]).min() > -1e-8 * abs(
        model.trace_["bound"][-1]
    ) and model.n_iter_ == len(model.trace_["bound"])
    assert np.isclose(model.state_["beta"].sum(), 1) and len(model.state_["beta"]) == K + 1
    score = document_completion(model, truth.test, random_state=0)
    assert score > document_completion(Unigram().fit(corpus), truth.test, random_state=0) + 0.3
    phi, weight = next(model.posterior_topics())
    assert (
        np.allclose(phi.sum(0), 1)
        and np.isclose(weight.sum(), model.alpha_)
        and phi.shape[1] % 4 == 0
    )


def test_variational_hdp_is_kept_whole(bars, tmp_path):
    model = VariationalHDP(n_topics=8, max_iter=5, random_state=0, n_jobs=2).fit(bars[0])
    model.save(tmp_path / "model.npz")
    again = VariationalHDP.load(tmp_path / "model.npz")
    same = VariationalHDP(n_topics=8, max_iter=5, random_state=0).fit(bars[0].to_matrix())
    for other in (again, same):
        assert np.array_equal(other.components_, model.components_) and np.array_equal(
            other.transform(bars[0]), model.transform(bars[0])
        )
    assert model.score(bars[1].test) == again.score(bars[1].test)


def test_a_fit_that_max_iter_ends_says_so(bars):
    fit = lambda **params: VariationalHDP(n_topics=8, random_state=0, **params).fit(bars[0])
    says = "max_iter=3 .* pass 3, the last, has changed it by 0.0.* tol is 1e-05"
    with pytest.warns(ConvergenceWarning, match=says) as told:
        fit(max_iter=3)
    assert told[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="max_iter=1 .* one pass cannot tell"):
        fit(max_iter=1)

    def stop(i, state):
        if i == 2:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        n_iter = fit(tol=1e-3).n_iter_
        assert fit(tol=1e-3, max_iter=n_iter).n_iter_ == n_iter  # settled in the last pass
        fit(tol=0, max_iter=3)  # as many passes as asked for
        VariationalHDP(n_topics=8, random_state=0).fit(bars[0], callback=stop)


def test_callback_of_passes(bars):
    seen = []
    VariationalHDP(n_topics=5, max_iter=3, tol=0, random_state=0).fit(
        bars[0], callback=lambda i, state: seen.append((i, state.lam.shape))
    )
    assert seen == [(0, (25, 5)), (1, (25, 5)), (2, (25, 5))]


@pytest.mark.parametrize(
    "bad, says",
    [
        (dict(n_topics=0), "n_topics"),
        (dict(n_topics=2.5), "n_topics"),
        (dict(alpha=0), "alpha"),
        (dict(gamma=-1), "gamma"),
        (dict(eta=np.nan), "eta"),
        (dict(alpha=(1, 1)), r"alpha must be .*; write Gamma\(1, 1\)"),
        (dict(gamma=LogNormal(0, 1)), "gamma must be a number, .*, or a Gamma prior"),
        (dict(eta=Gamma(1, 1)), "eta must be a number, .*, or None"),
        (dict(max_iter=0), "max_iter"),
        (dict(tol=-1), "tol"),
    ],
)
def test_bad_arguments(bars, bad, says):
    with pytest.raises(ValueError, match=says):
        VariationalHDP(**bad).fit(bars[0])


def test_progress_of_passes(bars, capsys):
    settings, seen = dict(n_topics=8, max_iter=30, tol=1e-3, random_state=0), []
    loud = VariationalHDP(**settings, verbose=True).fit(
        bars[0], callback=lambda i, state: seen.append(i)
    )
    err = capsys.readouterr().err
    assert (
        f"({loud.n_iter_} of 30 passes)" in err
        and loud.n_iter_ < 30
        and seen == [*range(loud.n_iter_)]
    )
    quiet = VariationalHDP(**settings).fit(bars[0])
    assert capsys.readouterr().err == "" and np.array_equal(quiet.components_, loud.components_)


class WholeVariational(VariationalHDP):
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


@parametrize_with_checks([WholeVariational(n_topics=4, max_iter=3)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_quick_start(tmp_path, monkeypatch):
    check_quick_start("VariationalHDP", tmp_path, monkeypatch)
