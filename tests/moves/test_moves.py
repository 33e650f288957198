"""Moves with the allocations integrated out: what notebooks 22 to 25 do not test themselves."""

import numpy as np
import pytest
from numba import njit
from rebind import rebind
from scipy.integrate import quad
from scipy.special import betaln, logsumexp
from tiers import slow_unless
from topics.test_franchise import draw_words, seat, seating_state

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_signatures
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.moves import schedule as topic_moves
from hdp_nb.moves.births import (
    _weigh_birth,
    choose_receivers,
    log_receivers,
    project_topic,
    propose_birth,
)
from hdp_nb.moves.marginal import (
    COARSE,
    MOST,
    SHARE_SPREADS,
    allocate,
    begin_curve,
    begin_moves,
    count_cells,
    draw_node_share,
    end_moves,
    fit_curve,
    log_node_share,
    weigh_shares,
)
from hdp_nb.moves.pairs import (
    Proposal,
    _keep_pair,
    _weigh_launched,
    find_shares,
    fit_parts,
    fit_topic,
    launch,
    propose_duplicates,
    take_out,
)
from hdp_nb.moves.schedule import KINDS, TopicMoves, propose_moves, sample_documents
from hdp_nb.moves.split_merge import HDPSplitMerge
from hdp_nb.topics.blocked import BlockedSampler, end_runs
from hdp_nb.topics.direct import DirectSampler, HybridSampler
from hdp_nb.topics.franchise import FranchiseSampler
from hdp_nb.topics.lda import LDASampler
from hdp_nb.topics.parallel import ParallelSampler
from hdp_nb.topics.tree import TreeSampler
from hdp_nb.utils.special import TINY, log_power, power_quantile

SAMPLERS = [FranchiseSampler, HybridSampler, DirectSampler, ParallelSampler, BlockedSampler]
by_kind = pytest.mark.parametrize("kind", SAMPLERS, ids=lambda kind: kind.__name__)
# Moves see topics only, whichever sampler is between them: that of the franchise keeps tables, too.
by_some = pytest.mark.parametrize(
    "kind",
    slow_unless(lambda kind: kind in (FranchiseSampler, DirectSampler), SAMPLERS),
    ids=lambda kind: kind.__name__,
)


def small(**options):
    return make_signatures(n_docs=60, doc_len=40, n_words=12, random_state=0, **options)[0]


# ---------------------------------------------------------------- cells, beginning and end


def test_cells_count_the_words_of_documents_that_have_any():
    corpus = Corpus.from_docs([[2, 0, 2], [], [1, 1, 1, 0]], n_words=5)
    cells = count_cells(corpus.x, corpus.offsets)
    assert cells.document.tolist() == [0, 2]
    found = {
        (int(j), int(cells.word[e])): int(cells.n[e])
        for i, j in enumerate(cells.document)
        for e in range(cells.indptr[i], cells.indptr[i + 1])
    }
    assert found == {(0, 0): 1, (0, 2): 2, (2, 0): 1, (2, 1): 3}
    assert (cells.word[cells.cell] == corpus.x).all()


@pytest.mark.parametrize("least", [1, 3])
def test_the_end_of_no_moves_is_the_beginning(least):
    "But for the numbers of topics: held ones come last."
    corpus = Corpus.from_docs([[0, 1, 1, 2], [2, 2, 2, 0], [], [1, 0, 0]], n_words=4)
    z = np.array([0, 0, 1, 2, 2, 2, 1, 3, 0, 3, 3])
    sampler = DirectSampler(corpus, init=z)
    state = sampler.init(np.random.default_rng(0))
    before = {name: np.array(value) for name, value in state._asdict().items()}
    cells = count_cells(corpus.x, corpus.offsets)
    part, mixture, workspace = begin_moves(np.random.default_rng(1), cells, state, 2, least)
    assert all((np.array(getattr(state, name)) == value).all() for name, value in before.items())
    held = np.flatnonzero(before["n_k"][:4] < least)
    assert int(mixture.K) == 4 - len(held) and (workspace.z < 0).sum() == before["n_k"][held].sum()
    assert part.n.sum() == corpus.n_tokens - before["n_k"][held].sum()
    for k in range(int(mixture.K)):
        workspace.n_vk[:, k] = np.bincount(corpus.x[workspace.z == k], minlength=4)
    after = end_moves(state, mixture, workspace)
    assert int(after.K) == 4 and np.isclose(after.beta.sum(), 1)
    order = np.append(np.flatnonzero(before["n_k"][:4] >= least), held)
    assert (order[after.z] == before["z"]).all()
    for name in ("n_k", "n_vk", "beta"):
        assert (getattr(after, name)[..., :4] == before[name][..., order]).all()
    assert after.beta[4] == before["beta"][4] and (after.n_k[4:] == 0).all()


@pytest.mark.parametrize("least", [1, 80])
def test_counts_are_listed_and_written_back(least):
    "Runs are those of the state until tokens are drawn; those of held topics are so afterwards."
    corpus, rng = small(), np.random.default_rng(0)
    sampler = BlockedSampler(corpus, init=30)
    moves = TopicMoves(sampler, least=least)
    state = sampler.init(rng)
    free, cell_n = state.n_k[:30] >= least, moves.cells.n
    assert free.all() if least == 1 else 0 < free.sum() < 30
    part, mixture, workspace = begin_moves(rng, moves.cells, state, 2, least)
    same = end_runs(state, workspace.z, int(mixture.K))
    order = np.append(np.flatnonzero(free), np.flatnonzero(~free))
    assert (order[same.topic] == state.topic).all() and (same.run == state.run).all()
    assert part.n.sum() == state.n_k[:30][free].sum()
    workspace.least[()] = 1  # few tokens may be drawn
    assert allocate(rng, part, mixture, workspace, int(mixture.K))
    after = end_runs(state, workspace.z, int(mixture.K))
    cell = np.searchsorted(np.cumsum(cell_n), np.cumsum(after.run) - 1, side="right")
    assert (np.bincount(cell, after.run) == cell_n).all()  # no run goes over the end of its cell
    n_vk = np.zeros((corpus.n_words, 30), int)
    np.add.at(n_vk, (moves.cells.word[cell], after.topic), after.run)
    assert (n_vk[:, : free.sum()] == workspace.n_vk[:, : free.sum()]).all()
    assert (n_vk[:, free.sum() :] == state.n_vk[:, :30][:, ~free]).all()
    assert not np.array_equal(n_vk[:, : free.sum()], state.n_vk[:, :30][:, free])  # they are drawn


@pytest.mark.parametrize("kind", [propose_duplicates, propose_birth])
def test_rejected_moves_leave_the_order_of_the_topics(kind):
    "The topics of the tokens are numbered as the rows are."
    corpus = small()
    sampler, rng = DirectSampler(corpus, init=6), np.random.default_rng(0)
    state = sampler.init(rng)
    cells = count_cells(corpus.x, corpus.offsets)
    _, mixture, workspace = begin_moves(rng, cells, state, 2)
    before = [array.copy() for array in (mixture.beta, mixture.phi, mixture.pi)]
    for _ in range(20):
        never = Proposal(True, -np.inf, 1.0)
        assert not kind(rng, cells, mixture, workspace, never)
    for old, new in zip(before, (mixture.beta, mixture.phi, mixture.pi)):
        assert (old == new).all()


def test_a_curve_is_the_density_at_its_points():
    """Of a share with a narrow peak, by H, whose points are dense around it; one further factor.
    The density of H is constant around the first two peaks, and not around the third.
    """
    corpus, rng, none = small(), np.random.default_rng(0), np.zeros(0)
    state, cells = DirectSampler(corpus, init=3).init(rng), count_cells(corpus.x, corpus.offsets)
    curve = begin_moves(rng, cells, state, 2)[2].curve
    curve.others[:, 0], curve.n_others[()] = (0.9, 0.5, 30.0), 1
    shape = 0.5, 0.7
    for power in (400.0, 600.0), (900.0, 100.0), (60.0, 3000.0):
        begin_curve(curve, shape)
        nodes, _ = fit_curve(curve, shape, power, (0.0, 1.0), none, cells.n[:0])
        assert nodes > COARSE and (np.diff(curve.y[:nodes]) > 0).all()
        u, u1 = np.array([power_quantile(y, *shape) for y in curve.y[:nodes]]).T
        exact = (power[0] - 1) * np.log(u) + (power[1] - 1) * np.log(u1)
        exact += 30 * np.log(0.9 - 0.5 * u) - [log_power(a, b, *shape) for a, b in zip(u, u1)]
        exact = np.exp(exact - exact.max())
        assert np.allclose(curve.f[:nodes], np.maximum(exact, 1e-9), rtol=1e-6)


# ---------------------------------------------------------------- dissolving


def test_a_mixture_is_projected_onto_its_parts():
    phi = np.random.default_rng(0).dirichlet(np.full(30, 0.3), 5)
    rho = np.zeros(8)
    project_topic(0.3 * phi[1] + 0.7 * phi[3], phi, 5, rho)
    assert np.allclose(rho[:5], [0, 0.3, 0, 0.7, 0], atol=0.02) and np.isclose(rho.sum(), 1)
    mark = np.zeros(8, np.int64)
    right, other = np.array([0, 0.31, 0, 0.69, 0]), np.array([0, 0.31, 0.69, 0, 0])
    assert log_receivers(right, rho, 5, mark) > 0
    assert log_receivers(other, rho, 5, mark) == -np.inf


def test_the_receivers_are_the_largest():
    "At most MOST, in whatever order they stand; above 0.03, or half of the largest."
    mark, many = np.zeros(MOST + 2, np.int64), np.linspace(0.1, 0.05, MOST + 2)
    for order in (slice(None), slice(None, None, -1)):
        assert choose_receivers(many[order].copy(), MOST + 2, mark) == MOST
        assert mark[order].tolist() == [1] * MOST + [0, 0]
    for near, n in (([0.5, 0.04, 0.02], 2), ([0.05, 0.03, 0.02], 2), ([0.9], 1)):
        assert choose_receivers(np.array(near), len(near), mark) == n
        assert mark.tolist() == [1] * n + [0] * (len(mark) - n)


@pytest.mark.parametrize("kind", [DirectSampler, TreeSampler])
def test_a_death_undoes_a_birth(kind):
    """From one topic there is one receiver, so a death draws nothing, and its log A is the birth's;
    but for shares that are rounded up to the least there is, of which it draws what they were.
    """
    corpus, always = grouped(small(), 3), Proposal(False, 0.0, np.inf)
    sampler, rng, n = kind(corpus, init=1), np.random.default_rng(0), 0
    state, every = sampler.init(rng), count_cells(corpus.x, corpus.offsets)
    tree = sampler.tree if kind is TreeSampler else None
    while n < 3:
        cells, mixture, workspace = begin_moves(rng, every, state, 2, tree=tree)
        born = propose_birth(rng, cells, mixture, workspace, always)
        if born and mixture.pi[:2].min() > TINY:
            birth, n = float(workspace.log_a), n + 1
            _weigh_birth(rng, cells, mixture, workspace, always._replace(merge=True))
            assert np.isclose(workspace.log_a, -birth)


@njit
def _largest(rng, weights, n, total):
    "In the place of a draw."
    return weights[:n].argmax()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DirectSampler, TreeSampler])
def test_a_launched_merge_undoes_a_split(kind):
    """By a fit that takes all its steps in both directions, log A of a merge into the very topic
    that was split is that of the split; a merge that is fitted by other steps has another."""
    corpus = grouped(small(), 3)
    sampler, rng, steps = kind(corpus, init=1), np.random.default_rng(0), 6
    state, every = sampler.init(rng), count_cells(corpus.x, corpus.offsets)
    tree = sampler.tree if kind is TreeSampler else None
    fit = rebind(launch, draw_index=_largest)
    cells, mixture, workspace = begin_moves(rng, every, state, 2, tree=tree)
    whole, splits, always = mixture.phi[0].copy(), 0, Proposal(False, 0.0, np.inf)

    @njit
    def recall(rng, eta, c, scale, out):
        "In the place of a draw of the merged topic: that which was split."
        out[:] = whole

    split = rebind(_weigh_launched, launch=fit)
    merge = rebind(_weigh_launched, launch=fit, draw_topic=recall)
    while splits < 3:
        cells, mixture, workspace = begin_moves(rng, every, state, 2, tree=tree)
        mixture.phi[0] = whole
        mixture.q[:] = whole[cells.word]
        accepted, pair = split(rng, cells, mixture, workspace, always, steps)
        log_a = float(workspace.log_a)
        if accepted and _keep_pair(rng, cells, mixture, workspace, False, pair):
            splits += mixture.pi[:2].min() > TINY
            found = []
            for n in (steps, 1):
                merge(rng, cells, mixture, workspace, always._replace(merge=True), n)
                found.append(float(workspace.log_a))
            assert np.isclose(found[0], -log_a) and abs(found[1] + log_a) > 0.1


def test_shares_that_only_the_prior_knows_are_drawn_from_it():
    "Of Beta(mass b, mass b1) in documents that have neither topic; the control takes b for 1/2."
    corpus, rng = small(), np.random.default_rng(0)
    state, cells = DirectSampler(corpus, init=3).init(rng), count_cells(corpus.x, corpus.offsets)
    _, mixture, workspace = begin_moves(rng, cells, state, 2)
    mixture.alpha[:], workspace.weight[0], workspace.b[0], workspace.b1[0] = 10.0, 0.5, 0.2, 0.8
    mixture.pi[:2], u = TINY, []
    for _ in range(50):
        find_shares(rng, mixture, workspace, 0, 1)
        u.append(workspace.u.copy())
        assert np.allclose(workspace.u + workspace.u1, 1)
    assert abs(np.mean(u) - 0.2) < 0.02 and abs(np.var(u) - 0.2 * 0.8 / 6) < 0.003
    assert abs(np.mean(u) - 0.5) > 0.2


def test_shares_are_weighed_by_the_evidence():
    """(M3) is about the integral over the shares, whichever are drawn, and the integral on average;
    shares that are given back have the same value again."""
    corpus = Corpus.from_docs([[0] * 6 + [1], [2], [1, 1, 2, 2, 2], [3] * 4], n_words=4)
    state = DirectSampler(corpus, init=np.arange(17) % 3).init(np.random.default_rng(0))
    cells, rng = count_cells(corpus.x, corpus.offsets), np.random.default_rng(0)
    _, mixture, w = begin_moves(rng, cells, state, 2)
    mixture.alpha[:] = 0.9, 1.5, 2.0, 0.9
    w.weight[0], w.b[0], w.b1[0] = 0.6, 0.7, 0.3  # the least powers are 0.378 and 0.162
    w.one[:], w.two[:] = [0.5, 0.3, 0.1, 0.1], [0.05, 0.15, 0.5, 0.3]
    w.pi_m[:] = 0.4, 0.3, 0.5, 1e-6
    w.rest[:] = rng.uniform(0.05, 0.2, len(cells.word))
    expected = 0.0
    for j in range(4):
        at = slice(cells.indptr[j], cells.indptr[j + 1])
        word, n, rest = cells.word[at], cells.n[at], w.rest[at]
        mass = mixture.alpha[j] * 0.6

        def likelihood(u):
            return np.prod((rest + w.pi_m[j] * (u * w.one[word] + (1 - u) * w.two[word])) ** n)

        powers = mass * 0.7 - 1, mass * 0.3 - 1
        area = quad(likelihood, 0, 1, weight="alg", wvar=powers)[0]
        expected += np.log(area / likelihood(0.7)) - betaln(mass * 0.7, mass * 0.3)
    found = []
    for _ in range(600):
        found.append(weigh_shares(rng, cells, mixture, w, True) - expected)
        again = weigh_shares(rng, cells, mixture, w, False) - expected
        assert again == pytest.approx(found[-1], abs=1e-6)
    assert np.allclose(w.mean, 0.7 * w.one + 0.3 * w.two)
    ratio, found = np.exp(found), np.abs(found)
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(600) < 0.1
    assert found.mean() < 0.3 and found.max() < 2  # as the density has the poles of the integrand


def test_shares_of_a_node_are_tiny_by_their_weight():
    "A part of TINY stands for all below: as b times the weight of the node, and not as b."
    corpus, rng = small(), np.random.default_rng(0)
    state, cells = DirectSampler(corpus, init=3).init(rng), count_cells(corpus.x, corpus.offsets)
    _, mixture, workspace = begin_moves(rng, cells, state, 2)
    mixture = mixture._replace(parent=np.array([-1, 0]), conc=np.array([1.0, 2.0]))
    w = workspace._replace(weight=np.array([0.5, 0.25]), b=np.zeros(2), b1=np.zeros(2))
    draw_node_share(rng, mixture, w, 1, 0.0, 0.0)
    assert sorted([w.b[1] * 0.25, w.b1[1] * 0.25]) == pytest.approx([TINY, 0.25], abs=0)
    w.b[0], w.b1[0], t = 0.3, 0.7, 3 / 4.0 ** np.arange(SHARE_SPREADS)
    for b, b1 in ((TINY, 0.25), (2 * TINY, 0.25), (0.25, TINY), (0.25, 2 * TINY)):
        w.b[1], w.b1[1] = b / 0.25, b1 / 0.25
        terms = t * np.log([b / 0.25 * b1 / 0.25]) + betaln(0.3, 0.7) - betaln(0.3 + t, 0.7 + t)
        terms -= np.log1p(t / 0.3) * (b == TINY) + np.log1p(t / 0.7) * (b1 == TINY)
        right = logsumexp(terms) - np.log(len(t))
        assert log_node_share(mixture, w, 1, 3.0, 3.0) == pytest.approx(right)


# ---------------------------------------------------------------- Geweke: all hyperparameters free


@pytest.mark.parametrize(
    "kind, wrong",
    [
        (FranchiseSampler, "odds"),
        (FranchiseSampler, None),
        pytest.param(FranchiseSampler, "prior", marks=pytest.mark.slow),
        *(
            pytest.param(kind, None, marks=pytest.mark.slow)
            for kind in SAMPLERS
            if kind is not FranchiseSampler
        ),
    ],
)
def test_geweke(kind, wrong, monkeypatch):
    """Of each kind of moves and its reverse, that which takes a topic away is proposed more often.
    One control leaves that out of the ratio, at a temperature of 1 but for its last digits; the
    other believes in another prior of alpha, as that of the franchise alone does.
    """

    def without_odds(rng, cells, mixture, workspace, moves, tally):
        hot = moves._replace(temperature=1 + 1e-12)
        propose_moves(rng, cells, mixture, workspace, hot, tally)

    monkeypatch.setattr(topic_moves, "_USUAL", np.array([0.05, 0.30, 0.05, 0.25, 0.05, 0.30]))
    if wrong == "odds":
        monkeypatch.setattr(topic_moves, "propose_moves", without_odds)
    lengths, V, eta = [4, 3, 0, 5], 3, 0.4
    offsets = np.append(0, np.cumsum(lengths))
    prior = (2.0, 2.0), (1.0, 1.0)
    claimed = (3.0, 2.0) if wrong == "prior" else (2.0, 2.0), (1.0, 1.0)

    def prior_draw(rng):
        alpha, gamma = (rng.gamma(a) / b for a, b in prior)
        seats = seat(rng, lengths, alpha, gamma)
        return seating_state(*seats, offsets[-1] * [0], lengths, V, alpha, gamma)

    def sweep(rng, state, x):
        corpus = Corpus(x, offsets, n_words=V)
        base = kind(corpus, eta, 1.0, 1.0, *claimed, init=state)
        sampler = TopicMoves(base, n_moves=20, tune=0, least=1)
        state, _ = sampler.sweep(rng, sampler.init(rng))
        return state.base if kind is FranchiseSampler else state.base.seated(rng, offsets)

    def statistics(state, x):
        return {
            "K": float(state.K),
            "alpha": float(state.alpha),
            "gamma": float(state.gamma),
            "alone": float((state.n_k == 1).sum()),
            "same": float((np.bincount(x) ** 2).sum()),
            "largest": float(state.n_k.max()),
            "joint": float(state.K) * float(state.alpha),
        }

    z = joint_distribution_test(
        np.random.default_rng(3),
        prior_draw,
        lambda rng, s: draw_words(rng, s, lengths, V, eta),
        sweep,
        statistics,
        n_draws=400,
        n_rounds=3,
    )
    worst = max(map(abs, z.values()))
    assert worst > 4 if wrong else worst < 4, z


# ---------------------------------------------------------------- starts


def assert_found(corpus, truth, state):
    "The state has three topics with 1% of the tokens, and they are the true ones."
    large = np.flatnonzero(state.n_k > 0.01 * corpus.n_tokens)
    phi = (state.n_vk[:, large] + 0.5).T
    unit = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)
    assert len(large) == 3 and (unit(truth.phi) @ unit(phi).T).max(axis=1).min() > 0.95


@by_some
@pytest.mark.parametrize("begin", [1, 20])
def test_three_topics_are_found_from_few_and_from_many(kind, begin):
    corpus, truth = make_signatures(n_docs=150, doc_len=120, n_words=40, random_state=2)
    state = run_chain(TopicMoves(kind(corpus, init=begin)), np.random.default_rng(0), 130).state
    assert_found(corpus, truth, state)


def grouped(corpus, n_groups=6):
    groups = {"group": [str(j % n_groups) for j in range(corpus.n_docs)]}
    return Corpus(corpus.x, corpus.offsets, n_words=corpus.n_words, groups=groups)


@pytest.mark.parametrize(
    "begin", slow_unless(lambda begin: begin in (1, 20), [1, 20, "sequential"])
)
def test_three_topics_are_found_in_a_tree(begin):
    corpus, truth = make_signatures(n_docs=150, doc_len=120, n_words=40, random_state=2)
    sampler = TopicMoves(TreeSampler(grouped(corpus), init=begin))
    state = run_chain(sampler, np.random.default_rng(0), 130).state
    assert_found(corpus, truth, state)
    assert state.beta.shape[0] == 7 and np.allclose(state.beta.sum(axis=1), 1)
    assert (np.bincount(state.z, minlength=state.n_k.size) == state.n_k).all()


SAMPLE = 100, 10_000


@by_some
@pytest.mark.parametrize("begin", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_three_topics_are_found_by_a_sample_of_the_documents(kind, begin):
    """From the end of the annealing on, in all documents; in a tree, too."""
    corpus, truth = make_signatures(n_docs=400, doc_len=120, n_words=40, random_state=2)
    for base in (kind(corpus, init=begin), TreeSampler(grouped(corpus), init=begin)):
        sampler = TopicMoves(base, tune=60, sample=SAMPLE)
        assert sampler.sample.corpus.n_docs == 100
        state = run_chain(sampler, np.random.default_rng(0), 61).state
        assert_found(corpus, truth, state)
        sampler.check(state)


def test_all_documents_are_swept_and_get_the_topics_of_the_sample():
    corpus = make_signatures(n_docs=400, doc_len=120, n_words=40, random_state=2)[0]
    sampler = TopicMoves(DirectSampler(corpus, init=1), tune=25, sample=SAMPLE)
    state, rng, Ks, found = sampler.init(np.random.default_rng(0)), np.random.default_rng(1), [], []
    for _ in range(40):
        state, info = sampler.sweep(rng, state)
        assert state.z.size == corpus.n_tokens and info["n_topics"] == state.K
        Ks.append(int((state.n_k > 0.01 * corpus.n_tokens).sum()))
        found.append(int(state.sample.n_done))
    # Direct assignment from one topic stays there, until it gets those of the sample.
    assert max(Ks[:9]) == 1 and min(Ks[9:]) > 1
    assert found == [*range(1, 13), *28 * [12]]  # the first half of the annealing is the sample's


def test_which_documents_are_a_sample():
    corpus = make_signatures(n_docs=60, doc_len=20, n_words=9, random_state=2)[0]
    empty = Corpus.from_docs([[]] * 40 + [corpus[j] for j in range(60)], n_words=9)
    drawn = [sample_documents(empty, 10, 300, seed) for seed in (0, 0, 1)]
    lengths = drawn[0].doc_lengths
    assert lengths.min() > 0 and lengths.sum() >= 300 and len(lengths) >= 10
    assert lengths.sum() - lengths.max() < 300 or len(lengths) == 10
    assert np.array_equal(drawn[0].x, drawn[1].x) and not np.array_equal(drawn[0].x, drawn[2].x)
    half = int(empty.n_tokens) // 2
    assert sample_documents(empty, 1, half + 30, 0) is None  # more than half of all
    assert (
        sample_documents(empty, 61, 1, 0) is None and sample_documents(empty, 10, 10**9, 0) is None
    )


def test_when_all_documents_are_annealed():
    corpus = make_signatures(n_docs=400, doc_len=12, n_words=40, random_state=2)[0]
    few = lambda base, **more: TopicMoves(base, **{"sample": (10, 1), **more}).sample
    assert few(DirectSampler(corpus, init=5)).corpus.n_docs == 10
    assert few(DirectSampler(corpus, init=5), sample=None) is None
    given = DirectSampler(corpus, init=np.zeros(corpus.n_tokens, int))
    assert few(given) is None
    assert few(DirectSampler(Corpus(corpus.x, corpus.offsets, n_words=1000), init=5)) is None
    # Chains from other numbers of topics look at other documents.
    moves = TopicMoves(DirectSampler(corpus, init=5), sample=(10, 1))
    one, many = (moves.start(k).sample for k in (1, 100))
    assert not np.array_equal(one.corpus.x, many.corpus.x)
    assert (one.base.begin, many.base.begin) == (1, 100)


def test_without_moves_they_are_not():
    corpus = make_signatures(n_docs=150, doc_len=120, n_words=40, random_state=2)[0]
    state = run_chain(DirectSampler(corpus, init=20), np.random.default_rng(0), 130).state
    assert (state.n_k > 0.01 * corpus.n_tokens).sum() > 5


# ---------------------------------------------------------------- data with nothing to move


@by_kind
@pytest.mark.parametrize(
    "corpus",
    [
        Corpus.from_docs([[0, 0, 0, 0], [0, 0, 0]], n_words=1),
        Corpus.from_docs([[2]], n_words=4),
        Corpus.from_docs([[0, 1, 2, 3] * 3, [], [3, 3]], n_words=9),
    ],
    ids=["one word", "one token", "unused words"],
)
def test_small_corpora(kind, corpus):
    for begin in (1, 5):
        chain = run_chain(TopicMoves(kind(corpus, init=begin)), np.random.default_rng(0), 8)
        assert chain.state.n_k.sum() == corpus.n_tokens
        assert np.isfinite(chain.trace["log_joint"]).all()


@pytest.mark.parametrize(
    "kind",
    slow_unless(lambda kind: kind is DirectSampler, SAMPLERS),
    ids=lambda kind: kind.__name__,
)
def test_one_concentration_per_document(kind):
    sampler = TopicMoves(kind(small(), init=8, alpha_per_document=True), n_moves=3)
    chain = run_chain(sampler, np.random.default_rng(0), 12)
    assert chain.state.alpha.shape == (60,) and chain.trace["moves_accepted"].sum() > 0


def test_around_split_merge():
    sampler = TopicMoves(HDPSplitMerge(DirectSampler(small(), init=12), 2), tune=6)
    chain = run_chain(sampler, np.random.default_rng(0), 12)
    assert {"splits_proposed", "moves_proposed"} < chain.trace.keys()
    assert chain.trace["moves_accepted"].sum() > 0


# ---------------------------------------------------------------- plan


def test_moves_are_frozen_after_the_tuning():
    sampler = TopicMoves(DirectSampler(small(), init=12), tune=9)
    state, rng, plans = sampler.init(np.random.default_rng(0)), np.random.default_rng(1), []
    for _ in range(30):
        state, info = sampler.sweep(rng, state)
        plans.append((int(state.n_moves), int(state.every), info["moves_proposed"]))
    assert plans[0][2] == 0 and min(plan[2] for plan in plans[1:9]) > 0
    n, every, _ = plans[9]
    assert plans[9][:2] != plans[8][:2] and {plan[:2] for plan in plans[9:]} == {(n, every)}
    assert [plan[2] for plan in plans[9:]] == [n * (i % every == 0) for i in range(9, 30)]


def test_small_data_get_more_moves(monkeypatch):
    "From 20,000 tokens on a launched fit has twelve steps, and the annealing is hot to its end."
    plans, often = [], []
    for least in (topic_moves._SMALL, 1):
        monkeypatch.setattr(topic_moves, "_SMALL", least)
        sampler, made = TopicMoves(DirectSampler(small(), init=12), tune=10), []
        plan = sampler._plan
        sampler._plan = lambda state, plan=plan, made=made: (
            made.append(plan(state)[0]) or plan(state)
        )
        state = run_chain(sampler, np.random.default_rng(0), 14).state
        plans.append(made)
        often.append(int(state.n_moves) / int(state.every))
    more, usual = plans
    assert [plan.temperature > 1 for plan in more] == [False] + [True] * 7 + [False] * 6
    assert [plan.temperature > 1 for plan in usual] == [False] + [True] * 9 + [False] * 4
    assert [plan.steps for plan in more[1:]] == [12] * 4 + [100] * 9
    assert {plan.steps for plan in usual} == {12}
    assert all((plan.p > 0).all() for plan in more[8:]) and min(plan.n for plan in more[8:10]) > 20
    assert often[0] > 2 * often[1] > 0


def test_a_launch_ends_when_it_has_settled():
    corpus, _ = make_signatures(n_docs=150, doc_len=120, n_words=40, random_state=2)
    sampler, found = DirectSampler(corpus, init=1), {}
    state, cells = sampler.init(np.random.default_rng(0)), count_cells(corpus.x, corpus.offsets)
    for steps in (3, 100, 1000):
        rng = np.random.default_rng(5)
        _, mixture, w = begin_moves(rng, cells, state, 1)
        take_out(rng, cells, mixture, w, False)
        n = fit_topic(cells, w, 0.5)
        launch(rng, cells, w, 0.5, n, steps)
        before = w.u.copy()
        changed = fit_parts(cells, w, 0.5, n)
        assert np.isclose(changed, (abs(w.u - before) * w.mass).sum() / w.mass.sum(), rtol=1e-6)
        found[steps] = before, changed
    assert (found[100][0] == found[1000][0]).all()
    assert found[100][1] < 0.001 < found[3][1]


def test_a_number_of_moves():
    sampler = TopicMoves(DirectSampler(small(), init=3), n_moves=2, tune=0)
    chain = run_chain(sampler, np.random.default_rng(0), 5)
    assert chain.trace["moves_proposed"].tolist() == [2] * 5


def test_cost_decides_how_often():
    few, many = (TopicMoves(DirectSampler(small(), init=3), tune=0, share=s) for s in (0.01, 1.0))
    proposed = [
        run_chain(sampler, np.random.default_rng(0), 60).trace["moves_proposed"].sum()
        for sampler in (few, many)
    ]
    assert proposed[0] < proposed[1] / 10


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "name, value",
    [
        *[
            ("n_moves", -1),
            ("n_moves", 1.5),
            ("tune", -1),
            ("share", 0),
            ("share", 2),
            ("least", 0),
        ],
        *[("sample", (0, 1)), ("sample", (1, 0.5))],
    ],
)
def test_bad_arguments(name, value):
    with pytest.raises(ValueError, match=f"^{name}"):
        TopicMoves(DirectSampler(small()), **{name: value})


def test_samplers_without_moves():
    corpus = small()
    with pytest.raises(ValueError, match="^base must be a sampler of the HDP, got LDASampler"):
        TopicMoves(LDASampler(corpus, 3))
    fitted = DirectSampler(corpus, init=3)
    given = fitted.snapshot(fitted.init(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="^base must be .* without given topics, got 3"):
        TopicMoves(TreeSampler(corpus, [], topics=given))


def test_probabilities_of_the_kinds():
    import hdp_nb.moves.schedule as topic_moves

    for p in (topic_moves._USUAL, topic_moves._LARGE, topic_moves._HOT):
        assert p.shape == (KINDS,) and np.isclose(p.sum(), 1)
    for p in (topic_moves._USUAL, topic_moves._LARGE):
        assert all((p[k] > 0) == (p[k ^ 1] > 0) for k in range(KINDS))


@pytest.mark.parametrize("n_words, K, some", [(1000, 60, False), (1000, 10, True), (999, 60, True)])
def test_large_vocabularies_are_split_into_fifty_topics_and_no_more(n_words, K, some):
    "In the annealing; after it, moves are as many as their time allows."
    rng = np.random.default_rng(0)
    corpus = Corpus.from_docs(rng.integers(n_words, size=(100, 30)), n_words=n_words)
    moves = TopicMoves(DirectSampler(corpus, init=K), tune=5)
    state = moves.init(rng)
    assert state.K == K
    state, first = moves.sweep(rng, state)  # the first sweep is without moves
    state, second = moves.sweep(rng, state)
    assert first["moves_proposed"] == 0 and (second["moves_proposed"] > 0) == some
