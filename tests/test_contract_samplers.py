"""The contract of a sampler (05_mcmc/03_chain), held against every sampler of the package.

A sampler that is not on the list fails the first test.
"""

import copy
import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from tiers import slow_unless

import hdp_nb
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.distributed.fit import OnlineShardSampler, ShardSampler
from hdp_nb.distributed.shards import ShardedCorpus, write_shards
from hdp_nb.evaluation.evidence import PoweredHDP, PoweredLDA
from hdp_nb.mcmc.chain import Sampler, run_chain, with_attributes
from hdp_nb.mixtures.augmented import AugmentedSampler, innermost, on_data
from hdp_nb.mixtures.dp import DPMixtureSampler, dp_state
from hdp_nb.mixtures.hdp import HDPMixtureSampler
from hdp_nb.mixtures.normal import likelihoods
from hdp_nb.mixtures.split_merge import DPSplitMerge, MixtureMoves, SplitMerge
from hdp_nb.mixtures.student import student
from hdp_nb.mixtures.subclusters import SubclusterSampler
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.moves.schedule import TopicMoves
from hdp_nb.moves.split_merge import HDPSplitMerge
from hdp_nb.nested.hnhdp import BOTH, GLOBAL, LOCAL
from hdp_nb.nested.sampler import NestedSampler
from hdp_nb.sequences.emissions import hmm_emission
from hdp_nb.sequences.groups import GroupedHMMSampler
from hdp_nb.sequences.moves import StateMoves, TracedStates
from hdp_nb.sequences.samplers import HMMSampler, check_sequences
from hdp_nb.topics.blocked import BlockedSampler, Told
from hdp_nb.topics.counts import predictive_topics
from hdp_nb.topics.direct import DirectSampler, HybridSampler
from hdp_nb.topics.franchise import FranchiseSampler
from hdp_nb.topics.known import KnownSampler, Namer, add_told
from hdp_nb.topics.known_lda import KnownLDASampler
from hdp_nb.topics.known_tree import KnownTreeSampler
from hdp_nb.topics.lda import LDASampler
from hdp_nb.topics.parallel import ParallelSampler
from hdp_nb.topics.tree import TreeSampler

RNG = np.random.default_rng(0)
# Twenty documents of 12 tokens over 9 words, the last of which never occurs, and two empty ones.
DOCS = [[], *(RNG.choice(8, 12, p=RNG.dirichlet(np.full(8, 0.3))).tolist() for _ in range(20)), []]
CORPUS = Corpus.from_docs(DOCS, n_words=9, groups={"side": ["left", "right"] * 11})
SEEDS = np.zeros((CORPUS.n_words, 2), np.int32)
SEEDS[[0, 1, 2], [0, 0, 1]] = 4
POINTS = RNG.normal(size=(60, 2)) + 3 * RNG.integers(3, size=(60, 1))
SYMBOLS = np.where(RNG.random(120) < 0.1, -1, RNG.integers(5, size=120))  # some are missing
ETA_LEARNED = {"eta_prior": (1, 1)}


@cache
def given():
    "Topics for the trees; compiling waits until some test asks for them."
    return HDP(moves=0, n_iter=2, n_chains=1, random_state=0).fit(CORPUS).samples_[-1]


# ---------------------------------------------------------------- counts, counted again


def require(right, what):
    if not right:
        raise AssertionError(what)


def equal(found, counted, what):
    "`found` begins with `counted`, and there is nothing but zeros behind."
    box = tuple(map(slice, counted.shape))
    behind = found.astype(float)
    inside = behind[box].copy()
    behind[box] = 0
    require(np.allclose(inside, counted) and not behind.any(), what)


def count_topics(sampler, state, corpus=CORPUS, given=None, fixed=False):
    "Words and tokens of every topic; tables, where there are any."
    x, z, K = corpus.x, state.z, int(state.K)
    require(z.min() >= 0 and z.max() < K, "z")
    n_vk = np.zeros((corpus.n_words, K))
    np.add.at(n_vk, (x, z), 1)
    if given is not None:  # these keep the words they came with
        n_vk[:, : given.shape[1]] = given.toarray()
    equal(state.n_vk, n_vk, "n_vk")
    equal(state.n_k, n_vk.sum(axis=0), "n_k")
    require(fixed or given is not None or (state.n_k[:K] > 0).all(), "gaps between topics")
    if hasattr(state, "t"):
        count_tables(state, corpus)
    elif state.m_k.ndim == 1:
        require((state.m_k <= state.n_k).all() and state.m_k.sum() == state.n_tables.sum(), "m_k")
    if hasattr(state, "beta"):
        require((state.beta >= 0).all() and np.allclose(state.beta.sum(axis=-1), 1), "beta")


def count_tables(state, corpus):
    m_k = np.zeros(int(state.K))
    for j in range(corpus.n_docs):
        a, b, T = corpus.offsets[j], corpus.offsets[j + 1], state.n_tables[j]
        n_jt = np.bincount(state.t[a:b], minlength=T)
        require(
            len(n_jt) == T and (n_jt > 0).all() and (state.n_jt[a : a + T] == n_jt).all(), "n_jt"
        )
        require((state.k_jt[a + state.t[a:b]] == state.z[a:b]).all(), "k_jt")
        np.add.at(m_k, state.k_jt[a : a + T], 1)
    equal(state.m_k, m_k, "m_k")


def count_given(sampler, state):
    count_topics(sampler, state, given=given().n_vk)


def count_seeded(sampler, state):
    z, seeds = state.z, getattr(sampler, "base", sampler).tree.seeds
    without = state.n_vk.copy()
    without[:, : seeds.shape[1]] -= seeds
    counted = SimpleNamespace(z=z, n_vk=without, n_k=state.n_k.copy(), K=state.K, m_k=state.m_k)
    counted.n_k[: seeds.shape[1]] -= seeds.sum(axis=0)
    count_topics(sampler, counted, fixed=True)
    require((state.m_k[0, : seeds.shape[1]] > 0).all(), "the root's tables of seeded topics")


def count_known(sampler, state):
    count_topics(sampler, state, fixed=True)
    require((state.n_k[2 : int(state.K)] > 0).all(), "gaps between new topics")


def count_all_topics(sampler, state):
    count_topics(sampler, state, fixed=True)


def count_shards(sampler, state):
    if state.t:
        z = np.concatenate([sampler.topics(state, i) for i in range(sampler.corpus.n_shards)])
        count_topics(sampler, state.base._replace(z=z))


def count_minibatches(sampler, state):
    "Documents seen: of the shards of this pass, after any number of whole passes."
    base, corpus = state.base, sampler.corpus
    require(
        base.lam.shape[1] == base.beta.size - 1
        and (base.lam >= base.eta).all()
        and np.isclose(base.beta.sum(), 1),
        "lam",
    )
    require(
        (base.seen - np.diff(corpus.first)[state.order[: int(state.done)]].sum()) % corpus.n_docs
        == 0,
        "seen",
    )


def count_rows(sampler, state):
    again = dp_state(sampler.fam, sampler.prior, sampler.data, state.z, state.alpha.item())
    K = int(state.K[0])
    require(K == int(again.K[0]) == len(np.unique(state.z)) == state.z.max() + 1, "K")
    equal(state.n_k, np.bincount(state.z), "n_k")
    for name in ("n", "mean", "ss"):  # the others are constants that may wait to be worked out
        require(np.allclose(getattr(state.stats, name)[:K], getattr(again.stats, name)[:K]), name)


def count_grouped(sampler, state):
    count_rows(sampler, state)
    K, n_jk = int(state.K[0]), sampler.group_counts(state)
    equal(n_jk.sum(axis=0), np.bincount(state.z), "n_jk")
    require(np.isclose(state.beta.sum(), 1) and (state.beta[: K + 1] > 0).all(), "beta")
    require((state.m_k[:K] <= state.n_k[:K]).all(), "m_k")
    require((state.n_tables >= (n_jk > 0).sum(axis=1)).all(), "n_tables")


def count_augmented(sampler, state):
    "What the components know of their rows, by the latent variables that the state has."
    inner, _ = innermost(sampler)
    data = inner.augmentation.remember(inner.prior, sampler._data, state.latents)
    inner, inside = innermost(on_data(sampler.base, data), state.base)
    require(0 <= inside.z.min() and inside.z.max() < np.ravel(inside.K)[0], "z")
    again = copy.deepcopy(inside)
    inner.recount(again)
    for name in {"n_k", "n_ab", "n_ba", "n_a", "K"} & {*inside._fields}:
        equal(getattr(inside, name), getattr(again, name), name)
    for name in ("n", "weight", "mean", "ss") if hasattr(again.stats, "weight") else ("n", "gain"):
        require(np.allclose(getattr(inside.stats, name), getattr(again.stats, name)), name)


def count_blocks(sampler, state):
    n_k, K = np.bincount(state.z), int(state.K[0])
    require(K == len(n_k) and n_k.min() > 0, "K")
    equal(state.n_k, n_k, "n_k")
    rows = sampler.rows.features(slice(None))
    equal(state.total, np.array([rows[state.z == k].sum(axis=0) for k in range(K)]), "total")


def count_moves(recount):
    "The recount of the sampler inside split-merge moves."

    def count(sampler, state):
        recount(sampler.base, state.base)

    return count


def count_documents(sampler, state):
    c, L, doc = sampler.corpus, sampler.L, sampler.data.doc
    local = state.z >= L
    require(state.c.min() >= 0 and state.c.max() < sampler.K and state.z.min() >= 0, "c")
    require((state.z[local] // L - 1 == state.c[doc[local]]).all(), "a topic of another cluster")
    require(
        (state.q[c.x[~local]] != LOCAL).all() and (state.q[c.x[local]] != GLOBAL).all(),
        "the side of a word",
    )
    require(np.isin(state.q, [GLOBAL, LOCAL, BOTH]).all(), "q")
    kept = sampler.snapshot(state)
    require(
        (kept.n_vk.sum(axis=1) == c.word_counts()).all()
        and (kept.m_k == np.unique(state.c, return_counts=True)[1]).all(),
        "snapshot",
    )
    require(sampler.categories is None or (state.c == sampler.categories).all(), "categories")


def count_steps(sampler, state):
    marks, x, z, K = sampler.sequences.marks, sampler.sequences.data, state.z, int(state.K)
    require(0 <= z.min() and z.max() < K, "z")
    bounds = getattr(sampler, "bounds", np.array([0, len(z)]))
    group = np.searchsorted(bounds, np.arange(len(z)), side="right") - 1
    n_ab, n_vk = np.zeros((len(bounds) - 1, K + 1, K)), np.zeros((sampler.prior.n_symbols, K))
    for t, k in enumerate(z):
        n_ab[group[t], K if marks[t] & 1 else z[t - 1], k] += 1
        n_vk[x[t], k] += marks[t] & 4 == 0
    found, m_k = (
        state.n_ab.reshape(len(n_ab), -1, state.n_k.size),
        state.m_k.reshape(-1, state.n_k.size)[-len(n_ab) :],
    )
    equal(found[:, :-1], n_ab[:, :K], "n_ab")
    equal(found[:, -1], n_ab[:, K], "n_ab from the start")
    equal(state.n_a.reshape(len(n_ab), -1)[:, :-1], n_ab[:, :K].sum(axis=2), "n_a")
    equal(state.n_ba.reshape(found[:, :-1].shape), n_ab[:, :K].swapaxes(1, 2), "n_ba")
    equal(state.n_k, np.bincount(z, minlength=K), "n_k")
    equal(
        state.stats.n_vk if state.stats.n_vk.shape[0] == len(n_vk) else state.stats.n_vk.T,
        n_vk,
        "n_vk",
    )
    require(sampler.method == "weak_limit" or (state.n_k[:K] > 0).all(), "gaps between states")
    require((m_k <= n_ab.sum(axis=1).max(initial=0)).all(), "m_k")


# ---------------------------------------------------------------- every sampler


class Case(NamedTuple):
    "How to make a sampler, in a folder of its own, and how to count what is in its states."

    kind: type
    make: Callable
    recount: Callable
    components: Callable = lambda state: int(state.K)
    fixed: bool = False  # the number of components is not free
    room: int | None = None  # the most components that there is room for


def topics(kind, recount=count_topics, **options):
    return Case(kind, lambda folder: kind(CORPUS, **options), recount)


def known(**options):
    make = lambda folder: KnownSampler(CORPUS, told=TOLD, init=20, **options)
    return Case(KnownSampler, make, count_known, lambda state: int(state.K) - 2)


def states(method, group=None):
    prior, sequences = check_sequences(SYMBOLS, [50, 0, 40, 30], "categorical", None)
    first, kind = ((), HMMSampler) if group is None else ((group,), GroupedHMMSampler)
    return Case(
        kind,
        lambda folder: kind(
            hmm_emission("categorical"),
            prior,
            sequences,
            *first,
            method,
            init=8,
            max_states=12,
            **ETA_LEARNED,
        ),
        count_steps,
        lambda state: np.count_nonzero(state.n_k),
        room=12 if method == "weak_limit" else None,
    )


def tails(folder):
    X = np.random.default_rng(5).standard_t(3, (60, 2)).round(2)
    X[7, 0] = np.nan
    sampler = DPMixtureSampler(student, X, student.default_prior(X))
    return AugmentedSampler(MixtureMoves(sampler, n_proposals=2, tune=0))


def gains(method):
    counts = np.random.default_rng(5).negative_binomial(2, 0.2, (120, 2))
    prior, sequences = check_sequences(counts, [50, 0, 40, 30], "negative_binomial", None)
    emission = hmm_emission("negative_binomial")
    return AugmentedSampler(HMMSampler(emission, prior, sequences, method, init=8, max_states=12))


def clusters(**options):
    return Case(
        NestedSampler,
        lambda folder: NestedSampler(CORPUS, n_clusters=12, n_topics=5, **options),
        count_documents,
        lambda state: len(np.unique(state.c)),
        fixed="categories" in options,
        room=12,
    )


def shards(folder):
    there = (folder / "corpus").exists()
    return (
        ShardedCorpus(folder / "corpus")
        if there
        else write_shards(folder / "corpus", iter(CORPUS), n_words=9, shard_tokens=70)
    )


def moves(kind, inside, **options):
    return Case(
        kind,
        lambda folder: kind(inside.make(folder), **options),
        count_moves(inside.recount),
        lambda state: inside.components(state.base),
    )


def traced(inside):
    return Case(
        TracedStates,
        lambda folder: TracedStates(inside.make(folder)),
        lambda sampler, state: inside.recount(sampler.base, state),
        inside.components,
        room=inside.room,
    )


MIXTURE = Case(
    DPMixtureSampler,
    lambda folder: DPMixtureSampler(
        likelihoods["normal_inverse_wishart"],
        POINTS,
        likelihoods["normal_inverse_wishart"].default_prior(POINTS),
    ),
    count_rows,
    lambda state: int(state.K[0]),
)
GROUPED = Case(
    HDPMixtureSampler,
    lambda folder: HDPMixtureSampler(
        likelihoods["normal_inverse_wishart"],
        POINTS,
        likelihoods["normal_inverse_wishart"].default_prior(POINTS),
        np.arange(60) % 4,
    ),
    count_grouped,
    MIXTURE.components,
)
TOLD = Told(np.ones((CORPUS.n_words, 2)) + np.eye(CORPUS.n_words, 2), np.array(0.5))
FRANCHISE, DIRECT = topics(FranchiseSampler, **ETA_LEARNED), topics(DirectSampler, **ETA_LEARNED)
CASES = {
    "franchise": FRANCHISE,
    "franchise, alpha of every document": topics(
        FranchiseSampler, init=20, alpha_per_document=True
    ),
    "direct": DIRECT,
    "hybrid": topics(HybridSampler, init=20),
    "parallel": topics(ParallelSampler, init=20, **ETA_LEARNED),
    "parallel, two threads": topics(ParallelSampler, init=20, n_threads=2),
    "blocked": topics(BlockedSampler, init=20, **ETA_LEARNED),
    "blocked, alpha of every document": topics(BlockedSampler, init=20, alpha_per_document=True),
    "known": known(**ETA_LEARNED),
    "known, lda": Case(
        KnownLDASampler,
        lambda folder: KnownLDASampler(CORPUS, 9, told=TOLD, **ETA_LEARNED),
        count_all_topics,
        lambda state: np.count_nonzero(state.n_k[2:]),
        room=9,
    ),
    "known, tree": Case(
        KnownTreeSampler,
        lambda folder: KnownTreeSampler(CORPUS, ["side"], told=TOLD, init=8, **ETA_LEARNED),
        count_known,
        lambda state: int(state.K) - 2,
    ),
    "LDA": Case(
        LDASampler,
        lambda folder: LDASampler(CORPUS, 7),
        count_all_topics,
        lambda state: np.count_nonzero(state.n_k),
        room=7,
    ),
    "LDA, learned weights": Case(
        LDASampler,
        lambda folder: LDASampler(CORPUS, 7, weights="learned"),
        count_all_topics,
        lambda state: np.count_nonzero(state.n_k),
        room=7,
    ),
    "direct with a power": topics(PoweredHDP, init=20, power=0.5),
    "LDA with a power": Case(
        PoweredLDA,
        lambda folder: PoweredLDA(CORPUS, 7, power=0.5),
        count_all_topics,
        lambda state: np.count_nonzero(state.n_k),
        room=7,
    ),
    "tree": topics(TreeSampler, levels=["side"], init=20),
    "tree, given topics": Case(
        TreeSampler,
        lambda folder: TreeSampler(CORPUS, ["side"], topics=given()),
        count_given,
        lambda state: int(state.K) - given().n_vk.shape[1],
    ),
    "tree, seeded topics": Case(
        TreeSampler,
        lambda folder: TreeSampler(CORPUS, ["side"], init=20, seeds=SEEDS),
        count_seeded,
        lambda state: int(state.K) - SEEDS.shape[1],
    ),
    "mixture": MIXTURE,
    "mixture with moves": moves(DPSplitMerge, MIXTURE, n_proposals=3, until=3),
    "mixture with joins": moves(MixtureMoves, MIXTURE, n_proposals=2, tune=3),
    "mixture of groups": GROUPED,
    "mixture of groups with joins": moves(MixtureMoves, GROUPED, n_proposals=2, tune=3),
    "mixture by blocks": Case(
        SubclusterSampler,
        lambda folder: SubclusterSampler(MIXTURE.make(folder), tune=3),
        count_blocks,
        MIXTURE.components,
    ),
    "mixture with tails": Case(
        AugmentedSampler, tails, count_augmented, lambda state: int(state.K[0])
    ),
    "states of gaining counts": Case(
        AugmentedSampler,
        lambda folder: gains("direct"),
        count_augmented,
        lambda state: np.count_nonzero(state.n_k),
    ),
    "states of gaining counts, weak limit": Case(
        AugmentedSampler,
        lambda folder: gains("weak_limit"),
        count_augmented,
        lambda state: np.count_nonzero(state.n_k),
        room=12,
    ),
    "franchise with moves": moves(HDPSplitMerge, FRANCHISE, n_proposals=3),
    "direct with moves": moves(HDPSplitMerge, DIRECT, n_proposals=3, scans=1),
    "franchise with topic moves": moves(TopicMoves, FRANCHISE, n_moves=2, tune=3, least=1),
    "direct with topic moves": moves(TopicMoves, DIRECT, n_moves=2, tune=0, least=2),
    "hybrid with topic moves": moves(TopicMoves, topics(HybridSampler, init=20), tune=4),
    "parallel with topic moves": moves(TopicMoves, topics(ParallelSampler, init=20), tune=2),
    "blocked with topic moves": moves(TopicMoves, topics(BlockedSampler, init=20), tune=3, least=2),
    "franchise, sampled documents": moves(TopicMoves, FRANCHISE, tune=4, least=1, sample=(3, 1)),
    "known with topic moves": moves(TopicMoves, known(), n_moves=2, tune=3),
    "blocked, sampled documents": moves(
        TopicMoves, topics(BlockedSampler, init=20), tune=4, least=1, sample=(3, 1)
    ),
    "tree, sampled documents": moves(
        TopicMoves, topics(TreeSampler, levels=["side"], init=20), tune=2, least=1, sample=(3, 1)
    ),
    "nested and hierarchical": clusters(),
    "nested": clusters(global_topics=False),
    "nested, no word selection": clusters(word_selection=False, shared_epsilon=True),
    "nested, known clusters": clusters(categories=np.arange(22) % 3),
    "states, direct": states("direct"),
    "states, beam": states("beam"),
    "states, weak limit": states("weak_limit"),
    "states of groups, direct": states("direct", [0, 2, 4]),
    "states of groups, beam": states("beam", [0, 2, 4]),
    "states of groups, weak limit": states("weak_limit", [0, 2, 4]),
    "states, traced": traced(states("direct")),
    "states with moves, direct": moves(StateMoves, states("direct"), n_moves=3, tune=3),
    "states with moves, beam": moves(StateMoves, states("beam"), tune=2),
    "states with moves, weak limit": moves(StateMoves, states("weak_limit"), n_moves=2, tune=0),
    "states of groups with moves": moves(StateMoves, states("direct", [0, 2, 4]), n_moves=2),
    "shards": Case(
        ShardSampler,
        lambda folder: ShardSampler(shards(folder), folder / "run", init=20),
        count_shards,
        lambda state: int(state.base.K),
    ),
    "shards with moves": Case(
        ShardSampler,
        lambda folder: ShardSampler(shards(folder), folder / "run", init=20, moves=4),
        count_shards,
        lambda state: int(state.base.K),
    ),
    "shards online": Case(
        OnlineShardSampler,
        lambda folder: OnlineShardSampler(
            OnlineHDP(n_topics=4, batch_size=6), shards(folder), folder / "run"
        ),
        count_minibatches,
        lambda state: state.base.beta.size - 1,
    ),
}
ABSTRACT = {SplitMerge}  # what DPSplitMerge and HDPSplitMerge share
# Another shape of alpha, another way to begin, moves around another sampler: the same claims again.
AGAIN = {
    *("franchise, alpha of every document", "blocked, alpha of every document"),
    *("parallel, two threads", "direct with moves", "hybrid with topic moves"),
    *("parallel with topic moves", "blocked with topic moves", "nested, known clusters"),
    "known with topic moves",
    *("blocked, sampled documents", "tree, sampled documents", "shards with moves"),
    *("states with moves, beam", "states of groups, beam", "states of groups, weak limit"),
}
every = pytest.mark.parametrize("name", slow_unless(lambda name: name not in AGAIN, CASES))


@pytest.fixture
def new(tmp_path):
    "Makes the sampler of a case, with what it keeps on disk in a folder of this name."

    def make(name, folder="one"):
        return CASES[name].make(tmp_path / folder)

    return make


def leaves(nest, path="state"):
    "(path, leaf) of all that is in a nest of NamedTuples, tuples, lists and dicts."
    if hasattr(nest, "_asdict"):
        nest = nest._asdict()
    if isinstance(nest, (tuple, list)):
        nest = dict(enumerate(nest))
    if not isinstance(nest, dict):
        return [(path, nest)]
    return [leaf for key, value in nest.items() for leaf in leaves(value, f"{path}.{key}")]


def same(one, other):
    """Whether all arrays are the same bits, but for a flag.

    Constants of a checkpoint wait, marked stale, to be made again: those themselves are compared.
    """
    one, other = leaves(one), leaves(other)
    return [path for path, _ in one] == [path for path, _ in other] and all(
        np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
        for (path, a), (_, b) in zip(one, other)
        if not path.endswith("stale")
    )


# ---------------------------------------------------------------- the contract


def samplers_of_the_package():
    "Every public class that can begin and sweep."
    modules = [
        import_module(module.name)
        for module in walk_packages(hdp_nb.__path__, "hdp_nb.")
        if not module.name.endswith("__main__")
    ]
    classes = {
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
    }
    return {
        kind
        for kind in classes
        if hasattr(kind, "init") and hasattr(kind, "sweep") and not kind.__name__.startswith("_")
    } - {Sampler}


# Whose states have more in them than a recount here knows of; tests of their own hold them to it.
ELSEWHERE = {
    "SemiMarkovSampler": "sequences/test_durations.py",
    "BegunStates": "sequences/test_durations.py",
    "TracedVisits": "sequences/test_durations.py",
    "KnownHMMSampler": "sequences/test_known_states.py",
    "KnownMixtureSampler": "mixtures/test_known_clusters.py",
    "KnownGroupsSampler": "mixtures/test_known_groups.py",
}


def test_every_sampler_is_on_the_list():
    found, listed = samplers_of_the_package() - ABSTRACT, {case.kind for case in CASES.values()}
    assert {kind.__name__ for kind in found} == {kind.__name__ for kind in listed} | {*ELSEWHERE}
    for name, file in ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert f"{name}(" in text and ".check(" in text
    assert all(kind.__subclasses__() for kind in ABSTRACT)


@every
def test_protocol(new, name):
    "All methods; a state is a NamedTuple of arrays; info has the same names after every sweep."
    sampler, rng = new(name), np.random.default_rng(1)
    assert type(sampler) is CASES[name].kind and isinstance(sampler, Sampler)
    assert not isinstance(SimpleNamespace(init=sampler.init, sweep=sampler.sweep), Sampler)
    state, infos = sampler.init(rng), []
    for _ in range(3):
        assert isinstance(state, tuple) and hasattr(state, "_fields")
        assert [path for path, leaf in leaves(state) if not isinstance(leaf, np.ndarray)] == []
        state, info = sampler.sweep(rng, state)
        infos.append(info)
    assert all(
        info.keys() == infos[0].keys()
        and np.isfinite([float(value) for value in info.values()]).all()
        for info in infos
    )
    assert {"log_joint", "log_likelihood"} <= infos[0].keys() or "bound" in infos[0]
    assert infos[0].keys() & {"n_topics", "n_components", "n_clusters", "n_states"}


@every
def test_counts_equal_a_recount(new, name):
    sampler, rng, recount = new(name), np.random.default_rng(2), CASES[name].recount
    state = sampler.init(rng)
    recount(sampler, state)
    sampler.check(state)
    for _ in range(10):
        state, _ = sampler.sweep(rng, state)
        recount(sampler, state)
        sampler.check(state)
        sampler.check(sampler.snapshot(state))


# What other values say nothing of: numbers that pass unseen are possible ones.
FREE = {
    *(
        "speed",
        "n_done",
        "n_moves",
        "every",
        "accepted",
        "quiet",
        "t",
        "seen",
        "node_tables",
        "m_k",
    ),
    *("loc", "inv_scale", "white", "log_norm", "inv"),  # derived, when they are next needed
}
UNSEEN = ("k_jt", "stale", "log_w")  # places of no table; a flag; a workspace


@every
def test_check_refuses_what_no_chain_can_have(new, name):
    "Out of every range: each array of a state and of a kept sample, in one place, at most."
    sampler, rng = new(name), np.random.default_rng(2)
    state, _ = sampler.sweep(rng, sampler.init(rng))
    n_refused, passed = 0, []
    for nest in (state, sampler.snapshot(state)):
        for path, array in leaves(nest):
            field = path.split(".")[-1]
            if not isinstance(array, np.ndarray) or not array.size or field in UNSEEN:
                continue
            values = (np.nan, -1.0, np.inf)
            if array.dtype.kind in "iu":
                values = np.clip(
                    [-1, 10**6], *(getattr(np.iinfo(array.dtype), m) for m in ("min", "max"))
                )
            for value in values:
                old = array.flat[0]
                if value == old or field in FREE and value in (-1.0, 10**6):
                    continue
                array.flat[0] = value
                try:
                    sampler.check(nest)
                    passed.append((path, value))
                except ValueError:
                    n_refused += 1
                array.flat[0] = old
        sampler.check(nest)
    assert not passed, passed
    assert n_refused > 10


def mixture_of_all_topics(sampler, state, corpus=CORPUS):
    "Log probability of the words by the kept sample, with every topic in every document."
    counts = sampler.snapshot(state)
    told = isinstance(sampler, Namer)
    phi, weight = predictive_topics(add_told(counts, TOLD.c) if told else counts)
    rows, total = np.atleast_2d(weight), 0.0
    for j in range(corpus.n_docs):
        first, end = corpus.offsets[j : j + 2]
        row = rows[sampler.tree.node[j] if len(rows) > 1 else 0]
        if state.alpha.ndim:
            row = row / row.sum() * state.alpha[j]
        n = np.bincount(state.z[first:end], minlength=len(row)) + row
        total += np.log(phi[corpus.x[first:end]] @ (n / n.sum())).sum()
    return total


@every
def test_what_is_traced_to_compare_states_by(new, name):
    "Words with their topics summed out, and the sizes of topics, are what the state says."
    sampler, rng = new(name), np.random.default_rng(4)
    state, info = sampler.sweep(rng, sampler.init(rng))
    of_topics = count_topics, count_given, count_seeded, count_all_topics, count_known, count_shards
    if CASES[name].recount not in of_topics:
        of_base, of_clusters = hasattr(sampler, "base"), "n_clusters" in info
        of_rows = "n_components" in info  # see 03_mixtures/01_dp
        assert "log_mixture" not in info or of_base or of_clusters or of_rows  # see test_nested
        return
    for _ in range(3):
        state, info = sampler.sweep(rng, state)
        whole = state
        if hasattr(state, "base"):
            z = [sampler.topics(state, i) for i in range(sampler.corpus.n_shards)]
            whole = state.base._replace(z=np.concatenate(z))
        shown = sampler if whole is state else super(ShardSampler, sampler)
        assert abs(info["log_mixture"] - mixture_of_all_topics(shown, whole)) < 1e-4
        n_k = np.sort(np.bincount(whole.z, minlength=3))[::-1]
        assert np.allclose([info[f"share_{i}"] for i in (1, 2, 3)], n_k[:3] / n_k.sum())
        assert info["topics_above_0.1%"] == np.count_nonzero(n_k >= max(0.001 * n_k.sum(), 1))
        assert info["topics_above_1%"] == np.count_nonzero(n_k >= 0.01 * n_k.sum())


@every
def test_the_recount_finds_a_wrong_count(new, name):
    "The control: every array that is counted again is changed in one place."
    sampler, rng = new(name), np.random.default_rng(2)
    state, _ = sampler.sweep(rng, sampler.init(rng))
    inside, found = getattr(state, "base", state), 0
    for count in (
        "n_vk",
        "n_k",
        "n_jt",
        "t",
        "topic",
        "run",
        "n_ab",
        "n_ba",
        "n_a",
        "stats",
        "seen",
        "z",
        "c",
        "q",
    ):
        array = (
            inside.stats[0]
            if count == "stats" and hasattr(inside, "stats")
            else getattr(inside, count if count in inside._fields else "", None)
        )
        if array is not None and array.size and not (count == "t" and array.ndim == 0):
            array.flat[0] += 100
            with pytest.raises(AssertionError):  # no kernel may be given what is out of bounds
                CASES[name].recount(sampler, state)
            with pytest.raises(ValueError):
                sampler.check(state)
            array.flat[0] -= 100
            CASES[name].recount(sampler, state)
            found += 1
    assert found


@every
def test_same_seed_same_chain(new, name):
    chains = [
        run_chain(new(name, folder), np.random.default_rng(seed), 5)
        for folder, seed in [("a", 3), ("b", 3), ("c", 4)]
    ]
    assert (
        same(chains[0].state, chains[1].state)
        and same(chains[0].trace, chains[1].trace)
        and same(chains[0].samples, chains[1].samples)
    )
    assert not same(chains[0].trace, chains[2].trace)


@every
def test_resumed_as_if_never_stopped(new, tmp_path, name):
    options = {"burn_in": 1, "thin": 2}
    whole = run_chain(new(name, "a"), np.random.default_rng(5), 6, **options)
    checkpoint = {"checkpoint": tmp_path / "chain.npz", "checkpoint_every": 1}
    run_chain(new(name, "b"), np.random.default_rng(5), 3, **options, **checkpoint)
    again = run_chain(new(name, "b"), np.random.default_rng(9), 6, **options, **checkpoint)
    assert (
        same(whole.state, again.state)
        and same(whole.trace, again.trace)
        and same(whole.samples, again.samples)
        and len(again.samples) == 3
    )
    assert whole.rng.random() == again.rng.random()


def with_other_data(sampler, folder):
    "The same sampler over other data of the same shape."
    if hasattr(sampler, "base"):
        return with_attributes(sampler, base=with_other_data(sampler.base, folder))
    if hasattr(sampler, "fam"):
        return with_attributes(sampler, data=sampler.data[::-1].copy())
    if hasattr(sampler, "sequences"):
        return with_attributes(
            sampler, sequences=sampler.sequences._replace(data=sampler.sequences.data[::-1].copy())
        )
    other = Corpus(CORPUS.x[::-1].copy(), CORPUS.offsets, n_words=9)
    return with_attributes(
        sampler,
        corpus=(
            write_shards(folder, iter(other), n_words=9)
            if "Shard" in type(sampler).__name__
            else other
        ),
    )


@every
def test_a_checkpoint_is_for_one_model(new, tmp_path, name):
    "params() tells it from all others: other data, or other concentrations, and it is refused."
    sampler = new(name)
    run_chain(sampler, np.random.default_rng(0), 1, checkpoint=tmp_path / "chain.npz")
    others = [with_other_data(sampler, tmp_path / "other")]
    others += [
        with_attributes(sampler, **{number: getattr(sampler, number) * 1.5})
        for number in ("alpha", "gamma", "eta", "conc_cluster")
        if hasattr(sampler, number)
    ]
    assert same(sampler.params(), new(name).params())
    for other in others:
        with pytest.raises(ValueError, match="checkpoint: can't resume"):
            run_chain(other, np.random.default_rng(0), 2, checkpoint=tmp_path / "chain.npz")


@every
def test_what_is_kept_stays(new, name):
    "A snapshot that a chain has kept does not change when the chain goes on."
    sampler, kept = new(name), []
    chain = run_chain(
        sampler,
        np.random.default_rng(6),
        4,
        callback=lambda sweep, state: kept.append(sampler.snapshot(state)) if sweep == 3 else None,
    )
    before = [np.copy(leaf) for _, leaf in leaves(chain.samples)]
    sampler.sweep(chain.rng, chain.state)
    assert all(np.array_equal(old, leaf) for old, (_, leaf) in zip(before, leaves(chain.samples)))
    assert len(chain.samples) == 4 and len(leaves(kept[0])) == len(leaves(chain.samples[-1]))


@every
def test_start(new, name):
    "start(k) begins with k components and leaves the sampler alone; other k are refused."
    case, sampler = CASES[name], new(name, "a")
    if case.fixed:
        with pytest.raises(ValueError, match="^k: .*known"):
            sampler.start(2)
        return
    for k in (1, 6):
        other = sampler.start(k)
        assert type(other) is type(sampler) and other is not sampler
        rng = np.random.default_rng(7)
        state = other.init(rng)
        # The first sweep of shards draws the topics, see below; known topics may be in use, too.
        if not isinstance(other, (ShardSampler, KnownLDASampler)):
            assert case.components(state) == k
        case.recount(other, state)
        for _ in range(2):
            state, _ = other.sweep(rng, state)
            case.recount(other, state)
    assert same(
        run_chain(sampler, np.random.default_rng(3), 2).trace,
        run_chain(new(name, "b"), np.random.default_rng(3), 2).trace,
    )
    for k in (0, -1, 2.5, "6", True, None, *([] if case.room is None else [case.room + 1])):
        with pytest.raises(ValueError, match="^k must be a whole number"):
            sampler.start(k)


def test_start_of_shards_is_that_of_the_parallel_sampler(new):
    one, other = new("shards").start(3), ParallelSampler(CORPUS, init=20).start(3)
    assert same(
        run_chain(one, np.random.default_rng(0), 3).trace,
        run_chain(other, np.random.default_rng(0), 3).trace,
    )


def test_chains_from_far_apart(new):
    "What start is for: from one component and from many, to the same posterior."
    sampler = new("mixture")
    first = [case.init(np.random.default_rng(0)) for case in (sampler.start(1), sampler.start(30))]
    assert [CASES["mixture"].components(state) for state in first][0] == 1 and CASES[
        "mixture"
    ].components(first[1]) > 20
    few, many = (
        np.mean(
            run_chain(sampler, np.random.default_rng(1), 400, burn_in=200, state=state).trace[
                "n_components"
            ][200:]
        )
        for state in first
    )
    assert abs(few - many) < 1
