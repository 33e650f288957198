"""Trees of Dirichlet processes: the kernel against every nested seating plan, wrong samplers, the
groups of a corpus, and TreeHDP.
"""

import os
import re
import subprocess
import sys
import types
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from naive import Posterior, log_words
from naive_tree import TreePosterior, urn
from numba import njit
from quickstart import check_quick_start
from rebind import rebind
from scipy.sparse import csr_array, issparse
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from tiers import slow_unless

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation.diagnostics import topic_shares
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.moves.schedule import Moves, MoveState, TopicMoves
from hdp_nb.processes.groups import Tree, find_nodes, group_paths, plant_tree
from hdp_nb.processes.weights import count_upward, draw_downward, node_weights, split_pool
from hdp_nb.topics.counts import TopicCounts, new_topic_workspace
from hdp_nb.topics.seeds import SeedWords, name_topics
from hdp_nb.topics.tree import (
    TreeSampler,
    TreeSweep,
    assign_in_tree,
    log_mixture_in_tree,
    sweep_tree,
)
from hdp_nb.utils.special import log_antoniak

TOLERANCE = 0.015

# Tiny corpora: documents, the group of each, further groups, concentrations from the root to the
# documents
TINY = {
    "three": ([[0, 0], [0, 1], [1, 1]], [("a",), ("b",), ("b",)], [], [0.7, 1.3, 0.9]),
    "four": ([[0, 0], [0, 1], [1]], [("a", "x"), ("a", "y"), ("b", "z")], [], [1.0, 0.6, 2.0, 0.8]),
    "depths": (
        [[0, 0], [0, 1], [1], []],
        [(), ("a",), ("a", "y"), ("a", "y")],
        [("c",)],
        [1.0, 0.6, 2.0, 0.8],
    ),  # ("c",) has no documents
    "small": (
        [[0], [1], [0], [1]],
        [("a", "x"), ("a", "x"), ("b", "x"), ("b", "y")],
        [],
        [1.0, 0.3, 0.3, 1.0],
    ),
}


def corpus_of(docs, paths, n_words=2):
    "Documents with their groups in columns; a document that hangs higher up has no label."
    depth = max(map(len, paths))
    groups = {
        f"level {d}": [path[d] if d < len(path) else "" for path in paths] for d in range(depth)
    }
    return Corpus.from_docs(docs, n_words=n_words, groups=groups)


def make_collect(sweep):
    @njit
    def collect(rng, state, work, data, prior, visit, n, out):
        (x, offsets, lengths), F = data, visit.tree.given.size
        n_topics, same, customers, unseen, tokens = out
        for _ in range(n):
            if not sweep(rng, state, work, x, offsets, lengths, prior, visit):
                raise RuntimeError("more topics than tokens")
            K = state.K[()]
            n_topics[K - F] += 1 / n
            for s in range(customers.size):
                customers[s] += state.m_k[s].sum() / n
                unseen[s] += state.beta[s, K] / n
            for a in range(x.size):
                if state.z[a] < F:
                    tokens[state.z[a]] += 1 / n
                for b in range(x.size):
                    same[a, b] += (state.z[a] == state.z[b]) / n

    return collect


collect_right = make_collect(sweep_tree)


def error(sampler, posterior, n=200_000, collect=collect_right):
    """Largest error of P(K), co-clustering, tokens in given topics, weights of what is not seen,
    and a fifth of the relative one of customers.
    """
    c, rng, S, F = (
        sampler.corpus,
        np.random.default_rng(0),
        len(sampler.nodes),
        sampler.tree.given.size,
    )
    state, N = sampler.init(rng), c.n_tokens
    out = [np.zeros(shape) for shape in (N + 1, (N, N), S, S, F)]
    work = new_topic_workspace(c.n_words, max(c.doc_lengths), state.n_k.size)
    visit = TreeSweep(sampler.tree, np.zeros(S, np.int64), True)
    collect(rng, state, work, (c.x, c.offsets, c.doc_lengths), sampler.prior, visit, n, tuple(out))
    out[2][0] -= sampler.tree.given.sum()
    exact = (
        posterior.n_topics,
        posterior.same,
        posterior.customers,
        posterior.unseen,
        posterior.tokens,
    )
    scales = 1, 1, 5 * np.maximum(posterior.customers, 1), 1, N
    return max((abs(a - b) / scale).max(initial=0) for a, b, scale in zip(out, exact, scales))


def tiny(name, init="sequential", **options):
    docs, paths, groups, conc = TINY[name]
    sampler = TreeSampler(
        corpus_of(docs, paths), None, conc, None, 0.3, groups=groups, init=init, **options
    )
    t = sampler.tree
    return sampler, TreePosterior(
        docs, t.node, t.parent, [conc[level] for level in t.level], conc[-1], 2, 0.3
    )


@pytest.mark.parametrize("name", TINY)
def test_exact_posterior(name):
    assert error(*tiny(name)) < TOLERANCE


@njit
def split_without_one(rng, state, tree, leaf, k, pool, pair):
    "As if no token had chosen the new topic, below the root."
    split_pool(rng, state, tree, 0, k, pool, pair)


@njit
def one_table(rng, n, conc):
    "As if everybody who eats the same sat together."
    return min(n, 1)


WRONG = {
    "birth without the + 1": lambda: rebind(
        sweep_tree, assign_in_tree=rebind(assign_in_tree, split_pool=split_without_one)
    ),
    "one table for a topic": lambda: rebind(
        sweep_tree, count_upward=rebind(count_upward, antoniak=one_table)
    ),
}


@pytest.mark.parametrize(
    "mistake", slow_unless(lambda mistake: mistake == "one table for a topic", WRONG)
)
def test_the_same_check_rejects_wrong_samplers(mistake):
    assert error(*tiny("small"), collect=make_collect(WRONG[mistake]())) > 2 * TOLERANCE


def test_the_root_alone_is_the_hdp():
    "No levels: the posterior of the two-level HDP, from an oracle that knows no trees."
    docs, V, eta, alpha, gamma = [[0, 0, 1], [], [0, 0, 1]], 2, 0.1, 0.5, 0.9
    sampler, exact = (
        TreeSampler(Corpus.from_docs(docs, n_words=V), [], [gamma, alpha], None, eta),
        Posterior(docs, V, eta, alpha, gamma),
    )
    posterior = types.SimpleNamespace(
        n_topics=exact.n_dishes,
        same=exact.same,
        tokens=np.zeros(0),
        customers=np.array([exact.n_tables @ np.arange(7)]),
        unseen=np.array([exact.n_tables @ (gamma / (gamma + np.arange(7)))]),
    )
    assert error(sampler, posterior) < TOLERANCE


def test_a_chain_of_only_children():
    """Words that say nothing: tables of tables of tables, each number Antoniak's given the one
    below it; K are those of the root.
    """
    docs, paths, conc = [[0] * 6], [("a", "b", "c")], [2.0, 1.0, 3.0, 0.7, 1.5]
    p = np.zeros(7)
    p[6] = 1.0
    for concentration in reversed(conc):
        p = sum(
            p[n] * np.append(np.exp(log_antoniak(n, concentration)), np.zeros(6 - n))
            for n in range(7)
        )
    sampler = TreeSampler(corpus_of(docs, paths, 1), None, conc, None)
    state, rng, seen = sampler.init(np.random.default_rng(0)), np.random.default_rng(1), np.zeros(7)
    for _ in range(30_000):
        state = sampler._sweep(rng, state)
        seen[state.K] += 1 / 30_000
    assert abs(seen - p).max() < TOLERANCE


def test_given_topics_are_held():
    """Exact, with two topics given: their words and their tables at the root stay as they are, new
    topics may come.
    """
    docs, paths, groups, conc = TINY["three"]
    n_vk, tables = np.array([[5, 0], [1, 2]]), (3, 1)
    phi = ((n_vk + 0.3) / (n_vk.sum(axis=0) + 0.6)).T
    given = counts_of(n_vk, np.append(tables, 0.5) / 4.5, gamma=0.5)
    sampler = TreeSampler(corpus_of(docs, paths), None, conc, None, 0.3, topics=given)
    t = sampler.tree
    assert t.given.tolist() == [3, 1]
    assert (
        error(
            sampler,
            TreePosterior(
                docs,
                t.node,
                t.parent,
                [conc[level] for level in t.level],
                conc[-1],
                2,
                0.3,
                tables,
                phi,
            ),
        )
        < TOLERANCE
    )
    state, rng = sampler.init(np.random.default_rng(0)), np.random.default_rng(0)
    for _ in range(20):
        state, info = sampler.sweep(rng, state)
        assert (state.n_vk[:, :2] == n_vk).all() and info["n_topics"] >= 2
        check_counts(state, sampler)
    words = sum(np.log(phi[z][x]) for x, z in zip(sampler.corpus.x, state.z) if z < 2)
    words += (
        log_words(
            *zip(*[(int(x), int(z)) for x, z in zip(sampler.corpus.x, state.z) if z >= 2]), 2, 0.3
        )
        if (state.z >= 2).any()
        else 0.0
    )
    assert np.isclose(info["log_likelihood"], words)


SEEDS = np.array([[2, 0], [0, 1]])


def seeded(name, seeds=SEEDS, **options):
    docs, paths, groups, conc = TINY[name]
    sampler = TreeSampler(
        corpus_of(docs, paths), None, conc, None, 0.3, groups=groups, seeds=seeds, **options
    )
    t = sampler.tree
    assert t.given.tolist() == [1, 1]
    exact = partial(
        TreePosterior, docs, t.node, t.parent, [conc[l] for l in t.level], conc[-1], 2, 0.3, (1, 1)
    )
    return sampler, exact


@pytest.mark.parametrize("name", ["three", pytest.param("four", marks=pytest.mark.slow)])
def test_seeded_topics_are_exact(name):
    "The kernel alone; the same topics without pseudo-tokens are the control."
    sampler, exact = seeded(name)
    assert error(sampler, exact(seeds=SEEDS)) < TOLERANCE
    assert error(sampler, exact(seeds=0 * SEEDS)) > 2 * TOLERANCE


@pytest.mark.parametrize("with_moves", [pytest.param(False, marks=pytest.mark.slow), True])
def test_seeded_topics_with_names_and_moves(with_moves):
    """Whole sweeps, after which seeded topics draw which ones they are, and moves of the others;
    all parts of the state are what they should be.
    """
    base, exact = seeded("three", init=1)
    sampler = TopicMoves(base, n_moves=4, tune=0, least=1) if with_moves else base
    rng, n, n_accepted = np.random.default_rng(3), 3000, 0
    state, tokens, same = sampler.init(rng), np.zeros(2), np.zeros((6, 6))
    for i in range(n):
        state, info = sampler.sweep(rng, state)
        n_accepted += info.get("moves_accepted", 0)
        inner = state.base if with_moves else state
        if i % 100 == 0:
            base.check(inner)
            check_counts(inner, base)
        tokens += np.bincount(inner.z, minlength=2)[:2] / n
        same += np.equal.outer(inner.z, inner.z) / n
    distance = lambda p: max(abs(tokens - p.tokens).max() / 6, abs(same - p.same).max())
    assert (n_accepted > 100) == with_moves
    assert distance(exact(seeds=SEEDS)) < 0.04 < 0.06 < distance(exact(seeds=SEEDS[:, ::-1]))


def test_names_alone_are_drawn_from_their_conditional():
    """One document, a token for each table, nothing else moves: which of three topics is the seeded
    one, and how often none is, by products of urns.
    """
    words, seeds, eta, gamma = [0, 0, 1, 1, 1, 2], np.array([[3], [1], [0]], np.int32), 0.4, 0.7
    corpus = Corpus.from_docs([words], n_words=3)
    sampler = TreeSampler(
        corpus, [], [gamma, 1.0], None, eta, seeds=seeds, init=np.array([1, 1, 2, 2, 2, 3])
    )
    state = sampler.init(np.random.default_rng(0))
    tables, blocks = {0: 2, 1: 3, 2: 1}, ([0, 0], [1, 1, 1], [2])
    state.m_k[0] = 0
    state.m_k[0, :4] = 1, *tables.values()
    weight = [
        tables[k] / gamma * urn(block, eta + seeds[:, 0]) / urn(block, np.full(3, eta))
        for k, block in enumerate(blocks)
    ]
    exact, seen, rng, n = np.append(weight, 1.0), np.zeros(4), np.random.default_rng(1), 4000
    for _ in range(n):
        state, _ = name_topics(rng, state, seeds)
        first = np.flatnonzero(state.z == 0)
        seen[words[first[0]] if len(first) else 3] += 1 / n
        assert (state.n_vk[:, 0] >= seeds[:, 0]).all() and state.m_k[0].sum() == 7
        assert state.n_vk.sum() == 10 and state.n_k.sum() == 10 and state.z.max() == state.K - 1
    assert abs(seen - exact / exact.sum()).max() < 0.03
    assert abs(seen - np.roll(exact, 1) / exact.sum()).max() > 0.1


def test_documents_without_free_tokens_say_nothing_to_moves():
    "All tokens of two documents are of seeded topics, and those of no document of others."
    docs = [[0] * 6, [1] * 6, [2] * 6, [3, 2] * 3, []]
    z = np.array([0] * 6 + [1] * 6 + [2] * 6 + [3, 2] * 3)
    seeds = np.array([[9, 0], [0, 9], [0, 0], [0, 0]], np.int32)
    for start, moved in ((z, True), (np.minimum(z, 1), False)):
        base = TreeSampler(Corpus.from_docs(docs, n_words=4), [], seeds=seeds, init=start)
        sampler, rng = TopicMoves(base, n_moves=3, tune=20, least=1), np.random.default_rng(0)
        state, n_proposed = sampler.init(rng), 0
        for _ in range(30):
            state, info = sampler.sweep(rng, state)
            n_proposed += info["moves_proposed"]
            base.check(state.base)
        assert n_proposed > 0 or not moved


def counts_of(n_vk, beta, alpha=1.0, gamma=1.0, eta=0.3):
    n = csr_array(n_vk)
    return TopicCounts(
        n.data,
        n.indices,
        n.indptr,
        np.asarray(beta, float),
        np.array(alpha),
        np.array(gamma),
        np.array(eta),
    )


# ---------------------------------------------------------------- concentrations


def seat(rng, customers, concentration):
    "Customers, in a list, to tables, a list of lists."
    tables = []
    for n, customer in enumerate(customers):
        u = rng.random() * (n + concentration)
        for table in tables:
            u -= len(table)
            if u < 0:
                table.append(customer)
                break
        else:
            tables.append([customer])
    return tables


@pytest.mark.parametrize("per_node, moves", [(False, False), (True, False), (True, True)])
def test_joint_distribution_with_everything_free(per_node, moves):
    """Geweke's test: words and unknowns drawn from the model by nested restaurants, then moved by
    the sampler, with and without moves between numbers of topics.
    """
    paths, groups = [("a", "x"), ("a", "x"), ("a", "y"), ("b",), ()], [("c",)]
    lengths, V = [3, 2, 2, 3, 2], 2
    corpus = corpus_of([[0] * n for n in lengths], paths, V)
    sampler = TreeSampler(
        corpus, None, 1.0, [(3, 3), (4, 2), (3, 4), (4, 4)], 0.5, (4, 4), per_node, groups
    )
    t, prior = sampler.tree, sampler.prior

    def prior_draw(rng):
        state = sampler._empty(corpus.n_tokens)
        drawn = rng.gamma(prior.first) / prior.second
        state.conc[:] = (
            rng.gamma(prior.first[t.level]) / prior.second[t.level] if per_node else drawn[t.level]
        )
        state.alpha[()], state.gamma[()], state.eta[()] = drawn[-1], state.conc[0], rng.gamma(4) / 4
        customers = [[] for _ in sampler.nodes]
        for j, s in enumerate(t.node):
            tables = seat(rng, list(range(corpus.offsets[j], corpus.offsets[j + 1])), state.alpha)
            customers[s] += tables
            state.n_tables[j] = len(tables)
        of_token = {}
        for s in reversed(range(len(customers))):
            tables = seat(rng, customers[s], state.conc[s])
            state.node_tables[s] = len(tables)
            if s:
                customers[t.parent[s]] += [sum(table, []) for table in tables]
            else:
                of_token = {i: k for k, table in enumerate(tables) for i in sum(table, [])}
        state.z[:] = [of_token[i] for i in range(corpus.n_tokens)]
        for s, tables in enumerate(customers):
            for table in tables:
                state.m_k[s, of_token[table[0]]] += 1
        state.K[()] = len(set(of_token.values()))
        draw_downward(
            rng, state.m_k, state.beta, t.parent, state.conc, int(state.K), np.zeros(state.n_k.size)
        )
        return state

    def data_draw(rng, state):
        phi = rng.dirichlet(np.full(V, float(state.eta)), size=int(state.K))
        x = np.array([rng.choice(V, p=phi[z]) for z in state.z], np.int32)
        state.n_vk[:] = state.n_k[:] = 0
        np.add.at(state.n_vk, (x, state.z), 1)
        state.n_k[:] = state.n_vk.sum(axis=0)
        return x

    def sweep(rng, state, x):
        sampler.corpus.x[:] = x
        if not moves:
            return sampler._sweep(rng, state)
        with_moves = TopicMoves(sampler, n_moves=4, tune=0, least=1)
        return with_moves.sweep(rng, MoveState(state, *(np.array(0) for _ in range(5))))[0].base

    def statistics(state, x):
        log_conc = np.log(state.conc)
        pairs = np.equal.outer(state.z, state.z)
        return {
            "K": state.K,
            "alpha": np.log(state.alpha),
            "eta": np.log(state.eta),
            "root": log_conc[0],
            "node": log_conc[1],
            "empty": log_conc[-1],
            "deep": log_conc[2],
            "tables": state.n_tables.sum(),
            "node tables": state.node_tables[1],
            "within": float(pairs[0, 3]),
            "between": float(pairs[0, -1]),
            "unseen": state.beta[2, state.K],
            "words": float(x[0] == x[1]),
        }

    z = joint_distribution_test(
        np.random.default_rng(0), prior_draw, data_draw, sweep, statistics, n_draws=1000, n_rounds=4
    )
    assert max(map(abs, z.values())) < 4, z


# ---------------------------------------------------------------- bookkeeping


def check_counts(state, sampler):
    "Every count follows from the topics of the tokens, or lies between the bounds that they set."
    c, t, K, F = sampler.corpus, sampler.tree, int(state.K), sampler.tree.given.size
    n_vk, H = np.zeros_like(state.n_vk), F - t.seeds.shape[1]
    n_vk[:, H:F] = sampler.n_given[:, H:]
    new = state.z >= H
    np.add.at(n_vk, (c.x[new], state.z[new]), 1)
    assert (n_vk[:, H:] == state.n_vk[:, H:]).all() and (state.n_vk.sum(axis=0) == state.n_k).all()
    assert (state.n_k[F:K] > 0).all() and not state.n_k[K:].any() and not state.m_k[:, K:].any()
    n_jk = np.zeros((c.n_docs, K), int)
    np.add.at(n_jk, (np.repeat(np.arange(c.n_docs), c.doc_lengths), state.z), 1)
    low, high = np.zeros((2, len(sampler.nodes), K), int)
    low[0, :F] = high[0, :F] = t.given
    for j, s in enumerate(t.node):
        low[s] += n_jk[j] > 0
        high[s] += n_jk[j]
    for s in range(len(sampler.nodes) - 1, 0, -1):
        assert (low[s] <= state.m_k[s, :K]).all() and (state.m_k[s, :K] <= high[s]).all()
        assert (state.m_k[s] > 0).sum() <= state.node_tables[s] <= state.m_k[s].sum()
        low[t.parent[s]] += low[s] > 0
        high[t.parent[s]] += state.m_k[s, :K]
    assert (low[0] <= state.m_k[0, :K]).all() and (state.m_k[0, :K] <= high[0]).all()
    assert (
        state.m_k.sum() == state.n_tables.sum() + state.node_tables[1:].sum() + t.given.sum()
        and state.node_tables[0] == K
    )
    assert (
        np.allclose(state.beta.sum(axis=1), 1)
        and (state.beta[:, : K + 1] > 0).all()
        and not state.beta[:, K + 1 :].any()
    )
    assert state.conc[0] == state.gamma


@pytest.fixture(scope="module")
def bars():
    "Bars in two periods of two presidents each; some documents hang higher up, one is empty."
    docs = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)[0]
    outer, inner = (
        np.array(["old", "new"])[np.arange(62) // 31],
        np.array(["a", "b", "c", "d"])[np.arange(62) // 16],
    )
    inner[::7], outer[::14] = "", ""
    return Corpus.from_docs(
        [*docs, [], [3]], n_words=16, groups={"period": outer, "president": inner}
    )


@pytest.mark.parametrize("init", ["sequential", 1, 50])
@pytest.mark.parametrize(
    "gamma, per_node", [(1.0, False), (60.0, True)]
)  # 60: topics come and go, the arrays must grow
def test_counts_after_every_sweep(bars, init, gamma, per_node):
    sampler, rng = (
        TreeSampler(
            bars,
            None,
            [gamma, 9.0, 9.0, 3.0],
            [None, *[(9, 1)] * 3],
            0.05,
            None,
            per_node,
            [("none",)],
            init=init,
        ),
        np.random.default_rng(0),
    )
    state = sampler.init(rng)
    check_counts(state, sampler)
    sizes = {state.n_k.size}
    for _ in range(10):
        state, info = sampler.sweep(rng, state)
        check_counts(state, sampler)
        assert (
            info["n_topics"] == state.K
            and info["n_tables"] == state.n_tables.sum()
            and info["gamma"] == gamma
        )
        assert np.isclose(info["alpha_period"], state.conc[sampler.tree.level == 1].mean())
        sizes.add(state.n_k.size)
    assert gamma == 1.0 or max(sizes) > 16


def test_running_values_are_those_of_the_counts(bars):
    """Kernels keep coefficients up to date by small steps: at the end of a document they must be
    what the counts say.
    """
    sampler, rng = (
        TreeSampler(bars, None, [60.0, 10.0, 10.0, 5.0], None, 0.1, init=40),
        np.random.default_rng(0),
    )
    state = sampler.init(rng)
    room = lambda a: np.concatenate(
        [a, np.zeros(a.shape[:-1] + (128 - a.shape[-1],), a.dtype)], axis=-1
    )
    state = state._replace(
        **{name: room(getattr(state, name)) for name in ("n_vk", "n_k", "m_k", "beta")}
    )
    work, born, died = new_topic_workspace(16, 30, 128), 0, 0
    for j, (a, b) in [*enumerate(zip(bars.offsets, bars.offsets[1:]))] * 4:
        before = state.n_k > 0
        assert assign_in_tree(rng, state, work, sampler.tree, bars.x, bars.offsets, j, a) == b
        n_jk, weight = (
            np.bincount(state.z[a:b], minlength=128),
            state.alpha * state.beta[sampler.tree.node[j]],
        )
        assert np.allclose(work.n_jk, n_jk) and np.allclose(work.total, state.n_k + 1.6)
        assert np.allclose(work.coef, (n_jk + weight) / (state.n_k + 1.6), rtol=1e-9, atol=1e-300)
        assert (
            np.allclose(state.beta.sum(axis=1), 1)
            and ((state.beta > 0).sum(axis=1) == (state.n_k > 0).sum() + 1).all()
        )
        born, died = (
            born + (~before & (state.n_k > 0)).sum(),
            died + (before & (state.n_k == 0)).sum(),
        )
    assert born > 5 and died > 5


def test_log_joint(bars):
    sampler = TreeSampler(bars, eta=0.1)
    chain = run_chain(sampler, np.random.default_rng(0), 3)
    state, total = chain.state, 0.0
    for j, s in enumerate(sampler.tree.node):
        n, weight = (
            np.bincount(state.z[bars.offsets[j] : bars.offsets[j + 1]], minlength=state.n_k.size),
            state.alpha * state.beta[s],
        )
        used = n > 0
        total += (
            gammaln(state.alpha)
            - gammaln(state.alpha + n.sum())
            + (gammaln(weight[used] + n[used]) - gammaln(weight[used])).sum()
        )
    assert np.isclose(chain.trace["log_joint"][-1] - chain.trace["log_likelihood"][-1], total)
    assert np.isclose(
        chain.trace["log_likelihood"][-1], log_words(bars.x.tolist(), state.z.tolist(), 16, 0.1)
    )


def test_the_last_document_counts_and_an_empty_one_does_not(bars):
    """What lies behind the last boundary of the documents, here a zero, must not be read."""
    sampler = TreeSampler(bars, eta=0.1)
    state, node = sampler.init(np.random.default_rng(0)), np.zeros(2, np.int64)
    beta, x = sampler._weights(state), bars.x[:7]
    total = lambda *ends: log_mixture_in_tree(
        state, beta, node[: len(ends) - 1], np.arange(len(ends) - 1), x, np.array([*ends, 0])[:-1]
    )
    assert total(0, 7) < 0 and total(0, 0) == 0
    assert np.isclose(total(0, 3, 7), total(0, 3) + total(3, 7))


def test_seeds_reproduce_and_resume_is_identical(bars, tmp_path):
    run = lambda n, **kw: run_chain(
        TreeSampler(bars, eta=0.1), np.random.default_rng(7), n, thin=3, **kw
    )
    whole, again = run(20), run(20)
    run(9, checkpoint=tmp_path / "c.npz", checkpoint_every=4)
    resumed = run(20, checkpoint=tmp_path / "c.npz")
    for other in (again, resumed):
        assert all(np.array_equal(a, b) for a, b in zip(whole.state, other.state))
        assert all(np.array_equal(whole.trace[name], other.trace[name]) for name in whole.trace)
        assert all(
            np.array_equal(a, b) for s, r in zip(whole.samples, other.samples) for a, b in zip(s, r)
        )
    kept = whole.samples[0]
    assert kept.beta.shape == (8, kept.n_vk.shape[1] + 1) and np.allclose(kept.beta.sum(axis=1), 1)
    with pytest.raises(ValueError, match="c.npz"):
        run_chain(
            TreeSampler(bars, ["period"], eta=0.1),
            np.random.default_rng(7),
            20,
            thin=3,
            checkpoint=tmp_path / "c.npz",
        )


CHAIN = """
rng = np.random.default_rng(0)
groups = {"a": [*"xxxyyyy", ""], "b": [*"111122", "", ""]}
corpus = Corpus.from_docs(rng.integers(9, size=(8, 30)), groups=groups)
sampler = TreeSampler(corpus, None, [20.0, 2.0, 2.0, 2.0], (1, 1), 0.01)
state = run_chain(sampler, np.random.default_rng(1), 4).state
"""


def test_the_same_without_the_compiler(tmp_path):
    "NUMBA_DISABLE_JIT=1 runs the kernels as plain Python, and must give the same chain."
    imports = (
        "import numpy as np; from hdp_nb.mcmc.chain import run_chain; "
        "from hdp_nb.corpora.corpus import Corpus; from hdp_nb.topics.tree import TreeSampler"
    )
    script = f"{imports}\n{CHAIN}\nnp.savez('state.npz', **state._asdict())"
    subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    names = dict(globals())
    exec(CHAIN, names)
    with np.load(tmp_path / "state.npz") as arrays:
        assert all(
            np.array_equal(getattr(names["state"], name), array) for name, array in arrays.items()
        )


class Weights(NamedTuple):
    "The part of a TreeState that births change."

    beta: np.ndarray
    conc: np.ndarray


def test_weights_of_tiny_shapes():
    """A node without customers and a concentration near 0 draws one topic, and which one in
    proportion to its parent's weights; no weight is ever 0.
    """
    m_k, parent, conc = np.zeros((2, 8), np.int64), np.array([-1, 0]), np.array([1.0, 1e-12])
    m_k[0, :2] = 60, 20
    beta, rng, hits = np.zeros((2, 8)), np.random.default_rng(0), np.zeros(3)
    for _ in range(4000):
        draw_downward(rng, m_k, beta, parent, conc, 2, np.zeros(8))
        assert np.isclose(beta[1].sum(), 1) and (beta[1, :3] > 0).all() and beta[1].max() > 0.999
        hits[beta[1].argmax()] += 1 / 4000
    assert abs(hits - np.array([60, 20, 1]) / 81).max() < 0.03
    weights = Weights(beta, np.array([1.0, 1e-200]))
    tree = Tree(parent, np.array([2, 2]), *[np.zeros(0, np.int64)] * 3)
    for _ in range(100):
        beta[:, 3] = beta[:, 2]
        split_pool(rng, weights, tree, 0, 3, 4, np.zeros(2))
        assert np.isfinite(beta).all() and (beta[:, 3:5] > 0).all()


# ---------------------------------------------------------------- groups


def test_plant_tree():
    nodes, t = plant_tree(
        [("b", "x"), ("a",), (), ("b", "y"), ("b", "x"), ("a", "x")], [("c", "z")]
    )
    assert nodes == [(), ("b",), ("b", "x"), ("b", "y"), ("a",), ("a", "x"), ("c",), ("c", "z")]
    assert t.parent.tolist() == [-1, 0, 1, 1, 0, 4, 0, 6] and t.end.tolist() == [
        8,
        4,
        3,
        4,
        6,
        6,
        8,
        8,
    ]
    assert t.level.tolist() == [0, 1, 2, 2, 1, 2, 1, 2] and t.node.tolist() == [2, 4, 0, 3, 2, 5]


def test_group_paths_and_find_nodes():
    corpus = Corpus.from_docs([[0]] * 4, groups={"year": [1, 1, 2, -1], "who": ["a", "", "b", ""]})
    assert (
        group_paths(corpus, ["year", "who"]) == [(1, "a"), (1,), (2, "b"), ()]
        and group_paths(corpus, []) == [()] * 4
    )
    nodes = [(), (1,), (1, "a"), (3,)]
    assert find_nodes(nodes, ["year", "who"], corpus).tolist() == [2, 1, 0, 0]
    assert find_nodes(
        nodes, ["year", "who"], Corpus.from_docs([[0]] * 2, groups={"year": [3, 9]})
    ).tolist() == [3, 0]
    assert find_nodes(
        nodes, ["year", "who"], Corpus.from_docs([[0]], groups={"who": ["a"]})
    ).tolist() == [0]
    with pytest.raises(ValueError, match="'where'"):
        group_paths(corpus, ["where"])
    with pytest.raises(ValueError, match="document 0 must have a label at 'year'"):
        group_paths(Corpus.from_docs([[0]], groups={"year": [""], "who": ["a"]}), ["year", "who"])


def test_node_weights():
    "Means of Dirichlet draws, one below the other."
    m_k, parent, conc = (
        np.array([[3, 1], [0, 2], [0, 0]]),
        np.array([-1, 0, 1]),
        np.array([1.0, 2.0, 5.0]),
    )
    beta = node_weights(m_k, conc, parent, 2)
    assert (
        np.allclose(beta[0], [0.6, 0.2, 0.2])
        and np.allclose(beta[1], [1.2 / 4, 2.4 / 4, 0.4 / 4])
        and np.allclose(beta[2], beta[1])
    )


@pytest.mark.parametrize(
    "bad, message",
    [
        (dict(levels="period"), "levels must be None or a list"),
        (dict(levels=["era"]), "levels must name group columns"),
        (dict(levels=["period"] * 2), "levels must name each group column once, got .'period', "),
        (dict(concentrations=[1, 1]), "concentrations must have one entry per level, 4"),
        (dict(concentrations=[1, 0, 1, 1]), r"concentrations\[1\]"),
        (dict(concentration_priors=[(1, 1)]), "concentration_priors must have one"),
        (dict(concentration_priors=[None, (1, -1), None, None]), r"concentration_priors\[1\]"),
        (dict(groups=["old"]), "groups must hold paths"),
        (dict(groups=[("a", "b", "c")]), "groups must hold paths"),
        (dict(groups=3), "groups must hold paths"),
        (dict(init=np.zeros(3, int)), "init must hold one topic"),
        (dict(eta=0), "eta"),
        (dict(topics=counts_of([[1]], [0.5, 0.5])), "topics must be over the words"),
        (
            dict(topics=counts_of(np.ones((16, 1), int), [0.5, 0.5]), eta_prior=(1, 1)),
            "eta_prior must be None",
        ),
        (
            dict(topics=counts_of(np.ones((16, 1), int), [1.0, 0.0])),
            "topics must come from a model that gives weight",
        ),
    ],
)
def test_bad_arguments(bars, bad, message):
    with pytest.raises(ValueError, match=message):
        TreeSampler(bars, **bad).init(np.random.default_rng(0))


# ---------------------------------------------------------------- TreeHDP

quick = partial(TreeHDP, eta=0.1, init=20, n_iter=8, thin=2, n_chains=1, random_state=0)


class WholeTreeHDP(TreeHDP):
    """scikit-learn's checks feed fractions, which a model of counts must refuse; so round them up
    first.
    """

    def _corpus(self, X, reset=False):
        if not isinstance(X, Corpus):
            try:
                X = csr_array(X).ceil() if issparse(X) else np.ceil(X)
            except TypeError:  # objects, strings: the estimator's own business
                pass
        return super()._corpus(X, reset)


@parametrize_with_checks([WholeTreeHDP(n_iter=4, thin=1, n_chains=1)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("moves", ["often", -1, 1.5])
def test_bad_moves(bars, moves):
    with pytest.raises(ValueError, match="^moves must be"):
        quick(moves=moves).fit(bars)


def test_moves_leave_given_topics_alone(bars):
    first = quick(n_iter=4).fit(bars[:40])
    for moves in ("auto", 0):
        assert "moves_proposed" not in quick(n_iter=4, moves=moves).fit(bars, topics=first).trace_
    with pytest.raises(ValueError, match='^moves must be "auto" or 0 where topics are given'):
        quick(moves=2).fit(bars, topics=first)
    assert quick(n_iter=4, moves=2).fit(bars).trace_["moves_proposed"].sum() > 0


@pytest.fixture(scope="module")
def fitted(bars):
    return quick(groups=[("none", "at all")], n_chains=1).fit(bars)


def test_results(bars, fitted):
    state, fitted = [], fitted.one_sample()
    K, order = fitted.n_topics_, np.argsort(fitted.matches_)
    again = quick(groups=[("none", "at all")], n_chains=1)
    again.fit(bars, callback=lambda sweep, s: state.append(s))
    counts, state = fitted.samples_[fitted.best_], state[-1]
    assert (
        fitted.levels_ == ["period", "president"]
        and fitted.nodes_[0] == []
        and fitted.nodes_[-2:] == [["none"], ["none", "at all"]]
    )
    parent = [-1 if not path else fitted.nodes_.index(path[:-1]) for path in fitted.nodes_]
    exact = node_weights(state.m_k, state.conc, parent, K)
    with_rest = exact[:, [*order, K]]
    assert np.allclose(fitted.node_weights_, with_rest) and np.allclose(counts.beta, exact)
    assert np.allclose(
        fitted.node_weights_[fitted.node("none")], fitted.node_weights_[fitted.node()]
    )
    assert (
        np.array_equal(fitted.concentrations_, state.conc)
        and fitted.gamma_ == state.gamma
        and fitted.alpha_ == state.alpha
    )
    n_k = np.bincount(state.z)[order]
    assert (
        np.allclose(fitted.topic_shares_, n_k / n_k.sum())
        and (np.diff(n_k) <= 0).all()
        and (fitted.given_ == -1).all()
    )
    j, s = 20, fitted.node("old", "b")
    n_jk = (
        np.bincount(state.z[bars.offsets[j] : bars.offsets[j + 1]], minlength=K + 1)
        + state.alpha * exact[s]
    )
    assert (bars.groups["period"][j], bars.groups["president"][j]) == ("old", "b") and np.allclose(
        fitted.doc_topic_[j], (n_jk / n_jk.sum())[[*order, K]]
    )
    assert {"alpha_period", "alpha_president"} < set(fitted.trace_)
    with pytest.raises(ValueError, match="labels must be the path of a node"):
        fitted.node("older")


def test_new_documents_hang_under_their_group(bars, fitted):
    """An empty document has its node's weights: of its group, of the closest known above, of the
    root where it has no groups.
    """
    empty = lambda **groups: fitted.transform(
        Corpus([], [0, 0], n_words=16, groups={name: [label] for name, label in groups.items()})
    )[0]
    share = lambda *labels: (
        fitted.node_weights_[fitted.node(*labels)]
        / fitted.node_weights_[fitted.node(*labels)].sum()
    )
    assert np.allclose(empty(period="old", president="b"), share("old", "b")) and not np.allclose(
        share("old", "b"), share("old")
    )
    assert np.allclose(empty(period="old", president="x"), share("old")) and np.allclose(
        empty(period="old"), share("old")
    )
    assert np.allclose(empty(period="x", president="b"), share()) and np.allclose(
        empty(president="b"), share()
    )
    assert np.allclose(fitted.transform(np.zeros((1, 16), int))[0], share())
    alone, beside = fitted.transform(bars[5:6]), fitted.transform(bars)[5:6]
    assert np.array_equal(alone, beside)


@pytest.mark.parametrize(
    "labels, other, says",
    [
        (
            [1, 2],
            ["1", "2"],
            "must hold integers, as the labels of the fit are (1 is one), got '1'",
        ),
        (["1", "2"], [1, 2], "must hold strings, as the labels of the fit are ('1' is one), got 1"),
    ],
)
def test_labels_of_another_type_are_no_new_groups(bars, labels, other, says):
    "A label that the tree does not have hangs under the root; all of them would."
    half = bars.n_docs // 2
    give = lambda labels: Corpus(
        bars.x,
        bars.offsets,
        n_words=16,
        groups={"side": np.repeat(labels, [half, bars.n_docs - half])},
    )
    model = quick(n_chains=1).fit(give(labels))
    for method in model.transform, model.score:
        with pytest.raises(ValueError, match=re.escape("groups['side'] " + says)):
            method(give(other))
        method(give([labels[0], type(labels[0])(3)]))
    nowhere = give(["", ""] if isinstance(other[0], str) else [-1, -1])  # no label at all: the root
    bare = Corpus(bars.x, bars.offsets, n_words=16)
    assert (model.transform(nowhere) == model.transform(bare)).all()


def test_groups_matter_to_scores(bars):
    """Two groups that use different words: a document is predicted better under its own than under
    the other.
    """
    rng = np.random.default_rng(0)
    docs = [rng.integers(4, size=6) + 4 * (j % 2) for j in range(60)]
    groups = {"side": np.array(["even", "odd"])[np.arange(60) % 2]}
    model = TreeHDP(eta=0.1, init=10, n_iter=60, n_chains=1, random_state=0).fit(
        Corpus.from_docs(docs, n_words=8, groups=groups)
    )
    new = [rng.integers(4, size=4) + 4 * (j % 2) for j in range(100)]
    score = lambda flip: model.score(
        Corpus.from_docs(
            new, n_words=8, groups={"side": np.array(["even", "odd"])[(np.arange(100) + flip) % 2]}
        )
    )
    assert score(0) > score(1) + 0.02
    one_each = Corpus.from_docs(
        [[0], [1], [2]], n_words=8, groups={"side": ["odd", "even", "neither"]}
    )
    for counts, (_, weight), (_, root) in zip(
        model.samples_, model.posterior_topics(one_each), model.posterior_topics()
    ):
        rows = [model.node("odd"), model.node("even"), 0]
        assert np.allclose(
            weight[:, : counts.beta.shape[-1]], counts.alpha * counts.beta[rows]
        ) and np.array_equal(weight[2], root)


def test_given_topics_of_a_model(bars, fitted):
    "Topics of another fit keep their words and lead to rows of its components."
    later, one = quick(levels=["period"]).fit(bars[::2], topics=fitted), fitted.one_sample()
    K = one.n_topics_
    assert sorted(later.given_[later.given_ >= 0]) == list(range(K)) and later.n_topics_ >= K
    for row, k in zip(later.components_, later.given_):
        assert k < 0 or np.allclose(row, one.components_[k])
    # Shares are of the tokens of these documents, whatever was counted in the other fit.
    tokens = np.mean([s.n_jk.sum(axis=0)[:K] for s in later.samples_], axis=0)
    shown = [later.topic_shares_[list(later.given_).index(k)] for k in later.given_rows_]
    assert np.allclose(shown, tokens / bars[::2].n_tokens)
    counts = quick(levels=["period"]).fit(bars[::2], topics=fitted.samples_[fitted.best_])
    assert np.array_equal(counts.components_, later.components_)
    flat = quick(levels=[]).fit(
        bars, topics=counts_of(np.ones((16, 5), int), [0.1, 0.2, 0.3, 0.1, 0.1, 0.2])
    )  # as an HDP keeps them
    assert sorted(flat.given_[flat.given_ >= 0]) == list(range(5))
    for bad, message in [
        (3, "topics must be a fitted HDP"),
        (quick().fit(bars.to_matrix()[:, :4]), "topics must be over the words"),
    ]:
        with pytest.raises(ValueError, match=message):
            quick().fit(bars, topics=bad)


ROWS = {"top": [0, 1, 2, 3], "left": [0, 4, 8, 12], "no bar": [0, 5, 11, 14]}


@pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
def test_seed_words_of_a_model(bars, tmp_path):
    "They name topics, in all samples, and are in no share of words or tokens."
    model = quick(seed_words=ROWS, n_iter=60, n_chains=2).fit(bars)
    assert model.seed_names_ == list(ROWS) and model.seeds_.sum(axis=0).tolist() == [4] * 3
    assert model.seeded_.keys() == ROWS.keys()
    for f, (name, k) in enumerate(model.seeded_.items()):
        assert model.topic_labels_[k] == name and model.given_[k] == f and model.existence_[k] == 1
        assert all(to[f] == k for to in model._matched())
    for name in ("top", "left"):
        k = model.seeded_[name]
        assert set(map(int, model.top_words(4)[k])) == set(ROWS[name])
        assert model.topic_shares_[k] > 0.05
    assert model.topic_shares_[model.seeded_["no bar"]] < 0.02
    assert np.allclose(model.word_shares_, bars.word_counts() / bars.n_tokens)
    most = max(sample.n_vk.shape[1] for sample in model.samples_)
    tokens = topic_shares(model, most) * bars.n_tokens
    assert np.allclose(tokens, np.round(tokens)) and np.allclose(tokens.sum(axis=2), bars.n_tokens)
    assert np.allclose(model.doc_topic_.sum(axis=1), 1) and np.isfinite(model.score(bars))
    consensus = model.consensus()
    assert np.allclose(consensus.components_, model.components_)
    for later in (quick().fit(bars[:20], topics=model), model):
        later.save(tmp_path / "m.npz")
        again = TreeHDP.load(tmp_path / "m.npz")
        assert np.array_equal(again.given_, later.given_)
    assert again.seeded_ == model.seeded_ and again.topic_labels_ == model.topic_labels_
    assert again.seed_words == ROWS and again.score(bars) == model.score(bars)
    assert again.one_sample().seeded_.keys() == ROWS.keys()
    k = model.seeded_["top"]
    assert "top" not in model.drop_topics([k]).seeded_
    assert model.label_topics({k: "row"}).topic_labels_[k] == "row"
    assert clone(model).set_params(seed_words=None).fit(bars).seeded_ == {}
    model.seeds_ = model.seeds_[:-1]
    model.save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="seeds_"):
        TreeHDP.load(tmp_path / "m.npz")


def flat(**options):
    "An HDP and the tree without levels that is the same model, seeded alike."
    run = dict(eta=0.1, n_iter=40, moves=2, random_state=3) | options
    tree = dict(concentrations=[Gamma(2, 1), 0.5])
    hdp = dict(gamma=Gamma(2, 1), alpha=0.5)
    seeds = dict(seed_words=SeedWords(ROWS, 2))
    return HDP(**hdp, **run, **seeds), TreeHDP([], **tree, **run, **seeds)


@pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
@pytest.mark.parametrize("options", [{}, {"n_chains": 1, "init": 5, "eta": None}])
def test_a_seeded_hdp_is_the_tree_without_groups(bars, tmp_path, options):
    "Bit for bit; another seed of the random numbers gives something else."
    hdp, tree = (model.fit(bars) for model in flat(**options))
    names = ("components_", "doc_topic_", "word_shares_", "seeds_", "topic_shares_", "matches_")
    for name in names:
        assert np.array_equal(getattr(hdp, name), getattr(tree, name)), name
    for name, trace in tree.trace_.items():
        assert np.array_equal(hdp.trace_[name], trace), name
    assert hdp.seeded_ == tree.seeded_ and hdp.topic_labels_ == tree.topic_labels_
    assert hdp.score(bars) == tree.score(bars) and not hasattr(hdp, "nodes_")
    assert np.array_equal(hdp.transform(bars[:9]), tree.transform(bars[:9]))
    other = clone(hdp).set_params(random_state=4).fit(bars)
    assert not np.array_equal(other.components_, hdp.components_)

    hdp.save(tmp_path / "m.npz")
    again = HDP.load(tmp_path / "m.npz")
    assert again.seeded_ == hdp.seeded_ and again.topic_labels_ == hdp.topic_labels_
    assert again.seed_words == SeedWords(ROWS, 2) and again.score(bars) == hdp.score(bars)
    k = hdp.seeded_["top"]
    assert "top" not in hdp.drop_topics([k]).seeded_ and hdp.seeded_["top"] == k
    merged = hdp.merge_topics([k, hdp.seeded_["left"]]).seeded_
    assert merged["top"] == merged["left"] and "no bar" in merged
    weights = [weight for _, weight in hdp.posterior_topics()]
    assert {weight.ndim for weight in weights} == {1}
    if len(hdp.samples_) > 1:
        assert np.allclose(hdp.consensus().components_, hdp.components_)


def test_a_seeded_hdp_resumes_and_forgets(bars, tmp_path):
    def stop(sweep, state):
        if sweep == 25:
            raise KeyboardInterrupt

    model = partial(flat, n_chains=1)
    model()[0].fit(bars, callback=stop, checkpoint=tmp_path / "run.npz")
    resumed = model()[0].fit(bars, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(resumed.components_, model()[0].fit(bars).components_)
    resumed.set_params(seed_words=None).fit(bars)
    assert resumed.seeded_ == {} and resumed.seeds_.shape == (16, 0)
    plain = model()[0].set_params(seed_words=None).fit(bars)
    assert np.array_equal(resumed.components_, plain.components_)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"sampler": "hybrid"},
            "sampler must be 'auto', 'blocked', 'crf' or 'direct' with seed_words, got 'hybrid'",
        ),
        ({"sampler": "parallel"}, "sampler must be 'auto', 'blocked', 'crf' or 'direct'"),
        (
            {"moves": Moves(split_merge=3)},
            "split_merge of moves must be 'auto' or 0 with seed_words and sampler='auto', got 3",
        ),
        ({"seed_words": {"sea": [99]}}, r"seed_words\['sea'\] must be numbers of words, 0 to 15"),
        ({"seed_words": {}}, "seed_words must be a dict"),
        ({"seed_words": SeedWords(ROWS, 0)}, "strength of seed_words must be"),
        ({"init": "luck"}, "init must be"),
    ],
)
def test_what_a_seeded_hdp_cannot_do(bars, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        flat()[0].set_params(**options).fit(bars)


def test_a_seeded_hdp_begins_with_the_state_of_another(bars):
    states = []
    model = flat(n_chains=1, n_iter=4)[0]
    model.fit(bars, callback=lambda _, state: states.append(state))
    model.set_params(init=states[-1]).fit(bars)
    HDP(n_iter=4, n_chains=1).fit(bars, callback=lambda _, state: states.append(state))
    with pytest.raises(ValueError, match="^init"):
        model.set_params(init=states[-1]).fit(bars)


def test_seeded_chains_resume(bars, tmp_path):
    def stop(sweep, state):
        if sweep == 25:
            raise KeyboardInterrupt

    seeded = partial(quick, seed_words=SeedWords(ROWS, 3), n_iter=40, moves=2)
    seeded().fit(bars, callback=stop, checkpoint=tmp_path / "run.npz")
    resumed = seeded().fit(bars, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(resumed.components_, seeded().fit(bars).components_)
    with pytest.raises(ValueError, match="n_given"):
        quick(seed_words=ROWS, n_iter=40, moves=2).fit(bars, checkpoint=tmp_path / "run.npz")


@pytest.mark.parametrize(
    "seed_words, message",
    [
        ({}, "seed_words must be a dict"),
        (["ship"], "seed_words must be a dict"),
        ({"": ["ship"]}, "seed_words must have strings for names, got ''"),
        ({7: ["ship"]}, "seed_words must have strings for names, got 7"),
        ({"sea": "ship"}, r"seed_words\['sea'\] must be a list of words"),
        ({"sea": []}, r"seed_words\['sea'\] must be a list of words"),
        ({"sea": ["ship", "whale", "oar"]}, r"seed_words\['sea'\] .* 'whale', 'oar' are not"),
        ({"sea": [3]}, r"seed_words\['sea'\] must be words of X, which 3 is not"),
        ({"sea": [["ship"]]}, r"seed_words\['sea'\] must be words of X"),
        ({"sea": ["ship", "ship"]}, r"seed_words\['sea'\] must be distinct, got 'ship' twice"),
    ],
)
def test_bad_seed_words(seed_words, message):
    corpus = Corpus.from_docs([["ship", "sea"], ["bread", "sea"]])
    with pytest.raises(ValueError, match=f"^{message}"):
        quick(seed_words=seed_words).fit(corpus)


@pytest.mark.parametrize("strength", [0, -1, True, "much", 10**6, np.nan])
def test_bad_seed_strength(bars, strength):
    with pytest.raises(ValueError, match="^strength of seed_words must be"):
        quick(seed_words=SeedWords(ROWS, strength)).fit(bars)


def test_seeds_without_a_vocabulary_and_beside_given_topics(bars, fitted):
    with pytest.raises(ValueError, match=r"^seed_words\['a'\] must be numbers of words, 0 to 15"):
        quick(seed_words={"a": [16]}).fit(bars)
    with pytest.raises(ValueError, match="^seed_words must be None where topics are given"):
        quick(seed_words=ROWS).fit(bars, topics=fitted)
    both = dict(topics=fitted.samples_[0], seeds=np.ones((16, 1), int))
    with pytest.raises(ValueError, match="^seeds must be None where topics are given"):
        TreeSampler(bars, **both)
    for bad in (np.ones((15, 1), int), np.zeros((16, 1), int), np.ones((16, 1)), -both["seeds"]):
        with pytest.raises(ValueError, match="^(the sums of )?seeds"):
            TreeSampler(bars, seeds=bad)
    shared = quick(seed_words={"a": np.array([0, 1]), "b": (1, 2)}, n_iter=4).fit(bars)
    assert shared.seeds_[:4].tolist() == [[1, 0], [1, 1], [0, 1], [0, 0]]


def test_save_and_load(bars, fitted, tmp_path):
    fitted.save(tmp_path / "tree.npz")
    again = TreeHDP.load(tmp_path / "tree.npz")
    assert np.array_equal(
        again.fit(bars).components_, fitted.components_
    )  # parameters come back as they were
    again = TreeHDP.load(tmp_path / "tree.npz")
    assert (
        again.nodes_ == fitted.nodes_
        and again.score(bars) == fitted.score(bars)
        and again.node("old", "a") == fitted.node("old", "a")
    )
    assert np.array_equal(again.node_weights_, fitted.node_weights_) and np.array_equal(
        again.given_, fitted.given_
    )


def test_seeds_threads_and_checkpoints(bars, tmp_path):
    model = quick(n_chains=2, n_jobs=1)
    a, b = clone(model).fit(bars), clone(model).set_params(n_jobs=2).fit(bars)
    assert np.array_equal(a.node_weights_, b.node_weights_) and not np.array_equal(
        a.traces_["gamma"][0], a.traces_["gamma"][1]
    )

    def stop(sweep, state):
        if sweep == 4:
            raise KeyboardInterrupt

    whole = quick().fit(bars)
    assert (
        len(quick().fit(bars, callback=stop, checkpoint=tmp_path / "run.npz").trace_["gamma"]) == 5
    )
    assert np.array_equal(
        quick().fit(bars, checkpoint=tmp_path / "run.npz").components_, whole.components_
    )


def test_documents_of_a_matrix_have_no_groups(bars):
    model = quick().fit(bars.to_matrix())
    assert model.levels_ == [] and model.nodes_ == [[]] and np.isfinite(model.score(bars))


def test_quick_start(tmp_path, monkeypatch):
    check_quick_start("TreeHDP", tmp_path, monkeypatch)
