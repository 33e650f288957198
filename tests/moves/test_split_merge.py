"""Split-merge moves against enumeration, wrong moves that the same checks reject, bookkeeping, and
what the moves are for."""

import math
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from math import exp, lgamma, log

import naive_dp
import numpy as np
import pytest
from naive import Posterior, partitions
from scipy.special import gammaln
from topics.test_direct import check_state
from topics.test_franchise import TINY, TOLERANCE, check_counts

from hdp_nb import HDP, DPMixture
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.mcmc.chain import run_chain, run_chains
from hdp_nb.mixtures.dp import DPMixtureSampler
from hdp_nb.mixtures.normal import normal_inverse_gamma
from hdp_nb.mixtures.split_merge import DPSplitMerge, MoveOptions, SplitMergeState
from hdp_nb.moves.schedule import Moves
from hdp_nb.moves.split_merge import (
    HDPSplitMerge,
    _log_block,
    gather_tables,
    informed_anchors,
    log_likeness,
    new_split_merge_workspace,
    propose_tables,
    scan_tables,
    share_out,
    weigh_table,
)
from hdp_nb.topics.direct import DirectSampler, HybridSampler
from hdp_nb.topics.franchise import FranchiseSampler, empty_franchise
from hdp_nb.topics.lda import LDASampler

SAMPLERS = {"crf": FranchiseSampler, "direct": DirectSampler, "hybrid": HybridSampler}
KINDS = pytest.mark.parametrize("kind", SAMPLERS)
ANCHORS = pytest.mark.parametrize("anchors", ["uniform", "informed"])

# Seven tables in four documents, one of them empty; the second has 17 tokens, one more than a
# kernel multiplies before it takes a logarithm
TABLES, DOCUMENT, V, ETA, GAMMA = (
    ([0, 0, 1], [0] * 9 + [1] * 6 + [2] * 2, [2, 2], [1, 2, 2], [0]),
    (0, 0, 2, 2, 3),
    3,
    0.4,
    0.4,
)


@cache
def log_f(block):
    "log p of the words of some tables together (Wang & Blei, eq 6)."
    n = Counter(v for b in block for v in TABLES[b])
    return (
        lgamma(V * ETA)
        - lgamma(sum(n.values()) + V * ETA)
        + sum(lgamma(c + ETA) - lgamma(ETA) for c in n.values())
    )


def blocks(labels):
    "A partition as a frozenset of frozensets."
    return frozenset(frozenset(i for i, k in enumerate(labels) if k == l) for l in set(labels))


def exact_tables():
    "Probabilities of the partitions of the tables, whose seating is held fixed."
    p = {
        c: exp(len(c) * log(GAMMA) + sum(lgamma(len(b)) + log_f(b) for b in c))
        for c in map(blocks, partitions(len(TABLES)))
    }
    return {c: w / sum(p.values()) for c, w in p.items()}


def error(seen):
    "Largest difference between frequencies and exact probabilities."
    n = sum(seen.values())
    return max(abs(seen[c] / n - p) for c, p in exact_tables().items())


# ---------------------------------------------------------------- the move alone


def one_dish(gamma=GAMMA):
    "The franchise in which all tables serve one dish, and the place of each table."
    docs = [sum((TABLES[b] for b in range(len(TABLES)) if DOCUMENT[b] == j), []) for j in range(4)]
    corpus = Corpus.from_docs(docs, n_words=V)
    state, places, at = empty_franchise(corpus, 1.0, gamma, ETA), [], 0
    for words, j in zip(TABLES, DOCUMENT):
        places.append(corpus.offsets[j] + state.n_tables[j])
        state.t[at : at + len(words)], at = state.n_tables[j], at + len(words)
        state.n_jt[places[-1]] = len(words)
        state.n_tables[j] += 1
    np.add.at(state.n_vk, (corpus.x, state.z), 1)
    state.n_k[0], state.m_k[0], state.K[()] = corpus.n_tokens, len(TABLES), 1
    return corpus, state, places


def kernel_seen(anchors, scans, n=12_000, gamma=GAMMA):
    corpus, state, places = one_dish(gamma)
    sampler, rng, seen = (
        HDPSplitMerge(FranchiseSampler(corpus), 10, anchors=anchors, scans=scans),
        np.random.default_rng(0),
        Counter(),
    )
    for _ in range(n):
        state = sampler._propose(rng, state, np.zeros(4, np.int64))
        seen[blocks(state.k_jt[places].tolist())] += 1
    return seen


@ANCHORS
@pytest.mark.parametrize("scans", [0, 2])
def test_tables_alone(anchors, scans):
    assert error(kernel_seen(anchors, scans)) < TOLERANCE


def test_the_same_check_rejects_another_gamma():
    assert error(kernel_seen("uniform", 0, gamma=1.0)) > 2 * TOLERANCE


def naive_seen(anchors, mistake, n=14_000):
    "The same move in plain Python; `mistake` is what its ratio leaves out."
    rng, c, seen = np.random.default_rng(0), blocks([0] * len(TABLES)), Counter()
    sizes = [len(words) for words in TABLES]
    size = lambda *some: sum(sizes[i] for block in some for i in block)

    def weights(c, a):
        """Probability of every second anchor, given the first; what is missing from 1 is the
        chance of no proposal."""
        if anchors == "uniform":
            return [1 / (len(sizes) - 1) * (b != a) for b in range(len(sizes))]
        home = next(block for block in c if a in block)
        g = {block: exp(log_f(block | {a}) - log_f(block)) for block in c - {home}}
        total, w = sum(size(block) * g[block] for block in g), [0.0] * len(sizes)
        for b in home - {a}:
            w[b] = 0.5 * sizes[b] / (size(home) - sizes[a])
        for block in g:
            for b in block:
                w[b] = 0.5 * sizes[b] * (0.5 / size(*g) + 0.5 * g[block] / total)
        return w

    for _ in range(n):
        seen[c] += 1
        a = (
            rng.choice(len(sizes), p=np.array(sizes) / sum(sizes))
            if anchors == "informed"
            else rng.integers(len(sizes))
        )
        b = int(np.searchsorted(np.cumsum(weights(c, a)), rng.random(), side="right"))
        if b == len(sizes):
            continue
        home = {i: block for block in c for i in block}
        both = home[a] | home[b]
        merge, parts, log_q = home[a] != home[b], [frozenset([a]), frozenset([b])], 0.0
        for i in rng.permutation(sorted(both - {a, b})):
            w = [log(len(part)) + log_f(part | {i}) - log_f(part) for part in parts]
            log_p = np.array(w) - np.logaddexp(*w)
            l = int(i in home[b]) if merge else int(rng.random() >= exp(log_p[0]))
            log_q += log_p[l]
            parts[l] |= {i}
        apart, whole = c - {home[a], home[b]} | set(parts), c - {home[a], home[b]} | {both}
        log_a = (
            (0.0 if mistake == "gamma" else log(GAMMA))
            - lgamma(len(both))
            - log_f(both)
            + sum(lgamma(len(p)) + log_f(p) for p in parts)
        )
        if not (merge and mistake == "q"):
            log_a -= log_q
        if mistake != "anchors":
            log_a += log(weights(apart, a)[b] / weights(whole, a)[b])
        if log(rng.random()) < (-log_a if merge else log_a):
            c = whole if merge else apart
    return seen


@pytest.mark.parametrize(
    "anchors, mistakes", [("uniform", ["q", "gamma"]), ("informed", ["q", "gamma", "anchors"])]
)
def test_the_same_check_rejects_wrong_moves(anchors, mistakes):
    assert error(naive_seen(anchors, None)) < TOLERANCE
    for mistake in mistakes:
        assert error(naive_seen(anchors, mistake, 4000)) > 2 * TOLERANCE


def test_anchors():
    """All second tables, given the first, as often as (S5) says; -1 and -2 where there is nothing
    to propose."""
    corpus, state, places = one_dish()
    work, tally, rng = (
        new_split_merge_workspace(V, corpus.n_tokens, 16),
        np.zeros(4, np.int64),
        np.random.default_rng(0),
    )
    first = [informed_anchors(rng, state, work, corpus.x, corpus.offsets) for _ in range(4000)]
    assert {b for _, b in first} == {-2, *places} and abs(
        np.mean([b == -2 for _, b in first]) - 0.5
    ) < 0.03
    where = Counter(a for a, _ in first)
    assert all(
        abs(where[p] / 4000 - len(words) / corpus.n_tokens) < 0.03
        for p, words in zip(places, TABLES)
    )
    while state.K < 3:
        propose_tables(
            rng, state, work, corpus.x, corpus.offsets, MoveOptions(1, 0, False), 0, tally
        )
    c = blocks(state.k_jt[places].tolist())
    pairs = Counter(
        informed_anchors(rng, state, work, corpus.x, corpus.offsets) for _ in range(20_000)
    )
    for a, place in enumerate(places):
        home = next(block for block in c if a in block)
        g = {block: exp(log_f(block | {a}) - log_f(block)) for block in c - {home}}
        size = lambda *some: sum(len(TABLES[i]) for block in some for i in block)
        for b in set(range(len(places))) - {a}:
            block = next(block for block in c if b in block)
            w = (
                1 / (size(home) - len(TABLES[a]))
                if block == home
                else 0.5 / size(*g) + 0.5 * g[block] / sum(size(k) * g[k] for k in g)
            )
            p = 0.5 * len(TABLES[a]) / corpus.n_tokens * len(TABLES[b]) * w
            assert abs(pairs[place, places[b]] / 20_000 - p) < 0.012


@pytest.mark.parametrize("n", [1, 15, 16, 17, 80])
def test_block_predictives(n):
    "Three at once, and one, against eq 7 from gamma functions; nothing stays behind."
    W, eta, rng = 9, 0.01, np.random.default_rng(n)
    n_v, x = rng.integers(0, 2000, (W, 2)), rng.integers(W, size=n).astype(np.int32)
    n_v[::2, 0] = 0
    seen, both = np.zeros(W, np.int64), np.column_stack([n_v, n_v.sum(1)])
    count = np.bincount(x, minlength=W)[:, None]
    exact = (
        (gammaln(both + count + eta) - gammaln(both + eta)).sum(0)
        - gammaln(both.sum(0) + n + W * eta)
        + gammaln(both.sum(0) + W * eta)
    )
    tokens = np.arange(n, dtype=np.int32)
    assert np.allclose(weigh_table(x, tokens, n_v, n_v.sum(0).astype(float), seen, eta), exact)
    assert (
        np.isclose(_log_block(x, tokens, n_v, 1, n_v[:, 1].sum() + W * eta, seen, eta), exact[1])
        and not seen.any()
    )


def test_likelihood_ratio():
    "One pass gives log f(k1) + log f(k2) - log f(k), whatever the order (S4)."
    corpus, state, places = one_dish()
    work, rng = new_split_merge_workspace(V, corpus.n_tokens, 16), np.random.default_rng(0)
    S, n = gather_tables(state, work, corpus.offsets, places[1], places[3])
    assert (S, n) == (len(TABLES), corpus.n_tokens)
    for _ in range(5):
        rng.shuffle(work.table[2:S])
        _, ratio = scan_tables(rng, work, state.n_jt, corpus.x, S, ETA, False, 0)
        parts = [
            frozenset(places.index(b) for b, l in zip(work.table[:S], work.label[:S]) if l == part)
            for part in (0, 1)
        ]
        assert np.isclose(ratio, sum(map(log_f, parts)) - log_f(parts[0] | parts[1]))
        work.n_v[:], work.n[:], work.m[:] = 0, 0, 0


def plain_share_out(rng, tables, now, scans):
    """Parts of the tables (the anchors first), log probability of the last pass, and (S4).

    `now` are the parts that the last pass leads to; None lets it draw them.
    """
    part = {0: 0, 1: 1}  # of the tables with a part, by their place in the list

    def log_odds(r):
        "Of part 0 for table r, given all others."
        w = []
        for l in (0, 1):
            there = frozenset(tables[i] for i in part if i != r and part[i] == l)
            w.append(log(len(there)) + log_f(there | {tables[r]}) - log_f(there))
        return w[0] - w[1]

    if scans:
        part |= {r: int(2 * rng.random()) for r in range(2, len(tables))}
    for s in range(max(scans, 1)):
        log_q = 0.0
        for r in range(2, len(tables)):
            p = 1 / (1 + exp(-log_odds(r)))
            given = now is not None and s >= scans - 1
            part[r] = now[r] if given else 0 if rng.random() < p else 1
            log_q += log(1 - p if part[r] else p)
    parts = [frozenset(tables[r] for r in part if part[r] == l) for l in (0, 1)]
    return [*part.values()], log_q, sum(map(log_f, parts)) - log_f(frozenset(tables))


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("scans", [0, 1, 2, 3])
def test_parts_and_their_probability(scans, merge):
    """Every scan draws from the conditional given all other tables, and nothing else is counted.

    Not even an exact posterior can tell: a move stays exact if its proposal counts a table twice.
    """
    corpus, state, places = one_dish()
    work, rng = new_split_merge_workspace(V, corpus.n_tokens, 16), np.random.default_rng(0)
    S, n = gather_tables(state, work, corpus.offsets, places[1], places[3])
    for seed in range(5):
        rng.shuffle(work.table[2:S])
        now = [0, 1, *rng.integers(2, size=S - 2)]
        work.target[:S] = now
        draws, plain = np.random.default_rng(seed), np.random.default_rng(seed)
        found = share_out(draws, state, work, corpus.x, S, n, scans, merge)
        tables = [places.index(b) for b in work.table[:S]]
        labels, *want = plain_share_out(plain, tables, now if merge else None, scans)
        assert work.label[:S].tolist() == labels and np.allclose(found, want)
        assert draws.random() == plain.random()
        work.n_v[:], work.n[:], work.m[:] = 0, 0, 0


def test_likeness():
    corpus, state, places = one_dish()
    work = new_split_merge_workspace(V, corpus.n_tokens, 16)
    tokens = np.arange(3, dtype=np.int32)
    assert log_likeness(state, work, corpus.x, tokens, 0) == -math.inf
    n_v = np.bincount(corpus.x, minlength=V)
    f = exp(
        sum(
            log((n_v[v] + ETA + s) / (corpus.n_tokens + V * ETA + r))
            for r, (v, s) in enumerate([(0, 0), (0, 1), (1, 0)])
        )
    )
    assert np.isclose(log_likeness(state, work, corpus.x, tokens, 5), log(corpus.n_tokens * f))


# ---------------------------------------------------------------- with Gibbs sampling


@pytest.mark.parametrize(
    "kind, i, anchors",
    [("crf", 3, "informed"), ("direct", 0, "informed"), ("hybrid", 0, "uniform")],
)
def test_exact_posterior(kind, i, anchors):
    docs, V, eta, alpha, gamma = TINY[i]
    corpus, exact = Corpus.from_docs(docs, n_words=V), Posterior(*TINY[i])
    sampler, rng = (
        HDPSplitMerge(SAMPLERS[kind](corpus, eta, alpha, gamma, None, None), 2, anchors=anchors),
        np.random.default_rng(0),
    )
    state, n, K, same = sampler.init(rng), 10_000, np.zeros(corpus.n_tokens + 1), 0.0
    for _ in range(n):
        state, info = sampler.sweep(rng, state)
        K[info["n_topics"]] += 1 / n
        same = same + np.equal.outer(state.z, state.z) / n
    assert max(abs(K - exact.n_dishes).max(), abs(same - exact.same).max()) < TOLERANCE


def test_exact_with_concentrations_resampled():
    "Direct assignment redraws beta after a move that was accepted, and gamma given the new tables."
    docs, V, eta = TINY[1][:3]
    mean_alpha, mean_gamma, p_K = Posterior(docs, V, eta).concentrations((1, 1), (1, 1))
    trace = run_chain(
        HDPSplitMerge(DirectSampler(Corpus.from_docs(docs, n_words=V), eta), 3),
        np.random.default_rng(0),
        9000,
    ).trace
    assert (
        abs(np.bincount(trace["n_topics"].astype(int), minlength=p_K.size) / 9000 - p_K).max()
        < TOLERANCE
    )
    assert (
        abs(trace["alpha"].mean() / mean_alpha - 1) < 0.05
        and abs(trace["gamma"].mean() / mean_gamma - 1) < 0.05
    )


@pytest.mark.parametrize("scans", [0, 2])
def test_dp_mixture_alone(scans):
    x, prior = np.array([[0.0], [0.4], [3.0], [3.5], [-2.0]]), dict(mean=0.5, kappa=0.2, shape=2.0)
    exact = naive_dp.posterior(
        x, lambda x: naive_dp.normal_inverse_gamma(x, 0.5, 0.2, 2.0, 1.0), 0.6
    )

    def largest(alpha, n=8000):
        base = DPMixtureSampler(
            normal_inverse_gamma,
            x,
            normal_inverse_gamma.make_prior(1, scale=1.0, **prior),
            alpha,
            None,
        )
        sampler, state, rng = (
            DPSplitMerge(base, 10, scans=scans),
            base.state(np.zeros(len(x), int), capacity=2),
            np.random.default_rng(1),
        )
        K, same, tally = np.zeros(len(x) + 1), 0.0, np.zeros(4, np.int64)
        for _ in range(n):
            state = sampler._propose(rng, state, tally)
            K[state.K[0]] += 1 / n
            same = same + np.equal.outer(state.z, state.z) / n
        again = base.state(state.z)
        used = again.K[0]  # a recount; the slots behind are empty
        splits, split, merges, merged = tally
        assert splits + merges == 10 * n and split - merged == used - 1 and split > n / 10
        assert (
            used == state.K[0]
            and (again.n_k[:used] == state.n_k[:used]).all()
            and not state.n_k[used:].any()
        )
        counts = [
            (a, b)
            for name, a, b in zip(state.stats._fields, state.stats, again.stats)
            if name.startswith("n")
        ]
        assert all((a[:used] == b[:used]).all() and not a[used:].any() for a, b in counts)
        return max(abs(K - exact.n_components).max(), abs(same - exact.together).max())

    assert largest(0.6) < TOLERANCE
    assert largest(1.5, 2000) > 2 * TOLERANCE


# ---------------------------------------------------------------- bookkeeping


@KINDS
@ANCHORS
def test_counts_after_every_sweep(kind, anchors):
    corpus = Corpus.from_docs(
        [*make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)[0], [], [3]], n_words=16
    )
    sampler = HDPSplitMerge(
        SAMPLERS[kind](corpus, 0.1, 2.0, 30.0, (1, 1), None, 1), 20, until=8, anchors=anchors
    )  # 30: many topics, the arrays must grow
    rng = np.random.default_rng(0)
    state, total = sampler.init(rng), Counter()
    for s in range(10):
        tally = np.zeros(4, np.int64)
        moved = sampler._propose(np.random.default_rng(s), state.base, tally)
        (check_counts if kind == "crf" else check_state)(moved, corpus)
        assert tally[::2].sum() == 20 and (tally[1::2] <= tally[::2]).all()
        state, info = sampler.sweep(rng, SplitMergeState(moved, state.n_done))
        (check_counts if kind == "crf" else check_state)(state.base, corpus)
        assert (
            info["splits_proposed"] + info["merges_proposed"] == 20 * (s < 8)
            and info["n_topics"] == state.K == state.base.K
        )
        total.update({name: info[name] for name in info if name.endswith("accepted")})
    assert total["splits_accepted"] > 0 and state.n_done == 10 and state.m_k.size > 16


def test_tiny_corpora():
    "One token: one table, and nothing to propose. Two tables of one token each."
    for docs in ([[0]], [[], [1]], [[0], [1]]):
        trace = run_chain(
            HDPSplitMerge(FranchiseSampler(Corpus.from_docs(docs, n_words=2)), 5),
            np.random.default_rng(0),
            20,
        ).trace
        assert np.isin(
            trace["splits_proposed"] + trace["merges_proposed"],
            [0] if sum(map(len, docs)) == 1 else [5],
        ).all()
    base = DPMixtureSampler(
        normal_inverse_gamma, np.zeros((1, 2)), normal_inverse_gamma.make_prior(2)
    )
    assert (
        not run_chain(DPSplitMerge(base, 5), np.random.default_rng(0), 5)
        .trace["splits_proposed"]
        .any()
    )


def wrapped(kind):
    if kind == "dp":
        base = DPMixtureSampler(
            normal_inverse_gamma,
            np.random.default_rng(0).normal(size=(30, 2)),
            normal_inverse_gamma.make_prior(2),
        )
        return DPSplitMerge(base, 3, until=7)
    return HDPSplitMerge(
        SAMPLERS[kind](make_bars(n_docs=30, doc_len=30, grid=4, random_state=0)[0], 0.5), 3, until=7
    )


@pytest.mark.parametrize("kind", [*SAMPLERS, "dp"])
def test_resumes_bit_identically(kind, tmp_path):
    """The sweep after which proposals end is counted from the beginning, not from where the run
    was resumed."""
    run = lambda n, **kw: run_chain(wrapped(kind), np.random.default_rng(7), n, thin=3, **kw)
    whole, again = run(12), run(12)
    run(5, checkpoint=tmp_path / "c.npz")
    for other in (again, run(12, checkpoint=tmp_path / "c.npz")):
        assert all(np.array_equal(whole.trace[name], other.trace[name]) for name in whole.trace)
        assert np.array_equal(whole.state.z, other.state.z) and other.state.n_done == 12
    proposed = whole.trace["splits_proposed"] + whole.trace["merges_proposed"]
    assert proposed.tolist() == [3] * 7 + [0] * 5
    with pytest.raises(ValueError, match="n_proposals"):
        sampler = wrapped(kind)
        sampler.n_proposals = 4
        run_chain(sampler, np.random.default_rng(7), 12, checkpoint=tmp_path / "c.npz")


def test_chains_in_threads_are_the_serial_ones():
    one, two = (
        run_chains(wrapped("direct"), np.random.default_rng(1), 3, 6, n_jobs=n) for n in (1, 2)
    )
    assert all(np.array_equal(a.state.z, b.state.z) for a, b in zip(one, two))


def test_the_same_without_the_compiler(tmp_path):
    script = """
import sys
import numpy as np
from test_split_merge import short_chain
np.savez(sys.argv[1], **short_chain())
"""
    path = tmp_path / "plain.npz"
    subprocess.run(
        [sys.executable, "-c", script, path],
        check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with np.load(path) as plain:
        for (
            name,
            value,
        ) in (
            short_chain().items()
        ):  # (logarithms of NumPy and of the compiler may differ in their last bit)
            assert (
                np.array_equal(plain[name], value)
                if name.endswith("z")
                else np.isclose(plain[name], value, rtol=1e-12)
            )


def short_chain():
    corpus, _ = make_bars(n_docs=4, doc_len=30, grid=3, random_state=0)
    chains = [
        run_chain(
            HDPSplitMerge(DirectSampler(corpus, 0.1, gamma=3.0), 4, scans=scans),
            np.random.default_rng(1),
            3,
        )
        for scans in (0, 2)
    ]
    return {
        f"{i} {name}": value
        for i, chain in enumerate(chains)
        for name, value in (("z", chain.state.z), ("gamma", chain.state.gamma))
    }


# ---------------------------------------------------------------- what it is for


def test_bars_from_one_topic():
    """Direct assignment stays with a few topics for very long; with proposals it soon has all 20
    bars."""
    found = {False: [], True: []}
    for seed in range(3):
        corpus, truth = make_bars(n_docs=300, doc_len=100, concentration=2.0, random_state=seed)
        for moves in found:
            base = DirectSampler(corpus, 0.5, init=1)
            state = run_chain(
                HDPSplitMerge(base, 20) if moves else base, np.random.default_rng(seed), 40
            ).state
            phi = (state.n_vk + 0.5)[:, state.n_k > 0.01 * corpus.n_tokens]
            cosine = (
                truth.phi
                @ phi
                / np.outer(np.linalg.norm(truth.phi, axis=1), np.linalg.norm(phi, axis=0))
            )
            found[moves].append(len({row.argmax() for row in cosine if row.max() > 0.9}))
    assert max(found[False]) < 10 and sorted(found[True])[1] == 20  # on two of three seeds at least


def test_two_clusters():
    "Two clusters that Gibbs sampling, from one, does not part."
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-2, 1, 60), rng.normal(2, 1, 60)])[:, None]
    base = DPMixtureSampler(
        normal_inverse_gamma,
        x,
        normal_inverse_gamma.make_prior(kappa=1e-5, shape=50.0, scale=50.0),
        0.05,
        None,
    )
    start = base.state(np.zeros(120, int))
    alone = run_chain(base, np.random.default_rng(0), 100, state=start).trace["n_components"]
    moved = run_chain(
        DPSplitMerge(base), np.random.default_rng(0), 100, state=SplitMergeState(start, np.array(0))
    ).trace["n_components"]
    assert alone[-50:].mean() < 1.1 and moved[-50:].mean() > 1.9


# ---------------------------------------------------------------- estimators


def test_estimators():
    """split_merge proposals before every sweep until split_merge_until, in split_merge_scans; a
    state of such a run is a start for another."""
    corpus, states = make_bars(n_docs=30, doc_len=30, grid=4, random_state=0)[0], []
    few = {"init": 1, "eta": 0.5, "n_iter": 5, "n_chains": 1, "moves": 0, "random_state": 0}
    model = HDP(sampler="direct", **few | {"moves": Moves(0, split_merge=2, until=3)}).fit(
        corpus, callback=lambda _, state: states.append(state)
    )
    assert (model.trace_["splits_proposed"] + model.trace_["merges_proposed"]).tolist() == [
        2,
        2,
        2,
        0,
        0,
    ] and states[-1].alpha == model.samples_[-1].alpha
    assert (
        "splits_proposed"
        not in HDP(sampler="direct", **few | {"init": states[-1], "n_iter": 2}).fit(corpus).trace_
    )
    x = np.random.default_rng(0).normal(size=(30, 2))
    mixture = DPMixture("normal_inverse_gamma", moves=3, n_iter=4, random_state=0).fit(x)
    assert (mixture.trace_["splits_proposed"] + mixture.trace_["merges_proposed"]).tolist() == [
        3
    ] * 4 and mixture.predict(x).shape == (30,)
    scanned = HDP(sampler="direct", **few | {"moves": Moves(0, split_merge=2, scans=2)}).fit(corpus)
    base = HDPSplitMerge(DirectSampler(corpus, init=1), 2, scans=2)
    assert (
        scanned.trace_["log_joint"][-1]
        == run_chains(base, np.random.default_rng(0), 1, 5)[0].trace["log_joint"][-1]
    )
    scanned = [
        DPMixture("normal_inverse_gamma", moves=Moves(3, scans=scans), n_iter=4, random_state=0)
        .fit(x)
        .trace_["log_joint"]
        for scans in (0, 2)
    ]
    assert (mixture.trace_["log_joint"] == scanned[0]).all() and (scanned[0] != scanned[1]).any()
    for name, value in (("split_merge", -1), ("split_merge", 0.5), ("until", -1), ("scans", 1.5)):
        for estimator, data in (
            (HDP(n_iter=2, n_chains=1), corpus),
            (DPMixture("normal_inverse_gamma", n_iter=2), x),
        ):
            with pytest.raises(ValueError, match=f"^{name} of moves must be"):
                estimator.set_params(moves=Moves(**{name: value})).fit(data)


def test_auto():
    """With moves direct and parallel sampling have a proposal before every sweep, more rarely the
    more tokens there are; the franchise and sampling without moves have none."""
    corpus = make_bars(n_docs=30, doc_len=30, grid=4, random_state=0)[0]
    few = {"n_iter": 5, "n_chains": 1, "random_state": 0}

    def proposed(sampler, data=corpus, **options):
        trace = HDP(sampler=sampler, **few, **options).fit(data).trace_
        return (trace.get("splits_proposed", 0) + trace.get("merges_proposed", 0)) + np.zeros(5)

    for sampler in ("direct", "parallel"):
        assert proposed(sampler).tolist() == [1] * 5
        assert not proposed(sampler, moves=0).any()
    assert not proposed("crf").any() and not proposed("hybrid").any()
    many = make_bars(n_docs=400, doc_len=300, grid=4, random_state=0)[0]
    assert many.n_tokens >= 100_000 and proposed("direct", many).tolist() == [1, 0, 1, 0, 1]
    with pytest.raises(ValueError, match='^split_merge of moves must be "auto" or a whole number'):
        HDP(sampler="direct", moves=Moves(split_merge="often")).fit(corpus)


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "argument, value",
    [
        ("n_proposals", 0),
        ("n_proposals", 1.5),
        ("n_proposals", True),
        ("until", -1),
        ("scans", -1),
        ("every", 0),
        ("anchors", "random"),
    ],
)
def test_bad_arguments(argument, value):
    base = FranchiseSampler(Corpus.from_docs([[0, 1]]))
    with pytest.raises(ValueError, match=f"^{argument}"):
        HDPSplitMerge(base, **{argument: value})
    with pytest.raises(ValueError, match="^base"):
        HDPSplitMerge(LDASampler(base.corpus, 2))
