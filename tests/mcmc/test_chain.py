"""chain: what is kept, resuming to the last bit, killed and stopped runs, threads, bad input."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import njit

from hdp_nb.mcmc.chain import Chain, CheckpointError, run_chain, run_chains
from hdp_nb.utils.files import load_npz, save_npz


class Inner(NamedTuple):
    n: np.ndarray
    total: int


class State(NamedTuple):
    x: np.ndarray  # grows
    inner: Inner
    levels: tuple
    scale: float
    name: str
    nothing: object


class Walk:
    "A random walk with every kind of leaf, which grows an array in place, and spawns."

    def __init__(self, step=1.0, data=(0, 1, 2, 3)):
        self.step, self.data = step, np.array(data)

    def params(self):
        return {"step": self.step, "data": self.data, "prior": (1, 1), "nothing": None}

    def init(self, rng):
        return State(
            rng.normal(size=2),
            Inner(np.zeros((2, 3), np.int32), 0),
            (np.ones(1), np.zeros(2, bool)),
            0.5,
            "walk",
            None,
        )

    def sweep(self, rng, state):
        x = state.x if rng.random() > 0.2 else np.append(state.x, 0.0)
        x += rng.normal(scale=self.step, size=x.size)
        x[0] += rng.spawn(1)[0].random()  # the seed sequence is part of the state too
        state.inner.n[rng.integers(2), rng.integers(3)] += 1
        state.levels[0][0] *= 1.5
        new = State(
            x,
            Inner(state.inner.n, state.inner.total + 1),
            state.levels,
            state.scale + 1,
            "walk",
            None,
        )
        return new, {"sum": x.sum(), "size": x.size}


class Snapped(Walk):
    "Keeps a dict with an array of its own state, not copied."

    def snapshot(self, state):
        return {"n": state.inner.n, "deep": Inner(state.x, 3)}


def leaves(nest):
    if hasattr(nest, "_asdict"):
        nest = list(nest._asdict().items())
    if isinstance(nest, dict):
        nest = list(nest.items())
    if isinstance(nest, (list, tuple)):
        return [leaf for part in nest for leaf in leaves(part)]
    return [nest]


def assert_same(one, two):
    "Two Chains, equal to the last bit and in every type."
    for a, b in zip(
        leaves([one.state, one.samples, one.trace]),
        leaves([two.state, two.samples, two.trace]),
        strict=True,
    ):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        else:
            assert a == b
    assert type(one.state) is type(two.state) and [type(s) for s in one.samples] == [
        type(s) for s in two.samples
    ]
    assert (one.n_done, one.interrupted) == (two.n_done, two.interrupted)
    same_rng(one.rng, two.rng)


def same_rng(a, b):
    assert repr(a.bit_generator.state) == repr(b.bit_generator.state)
    assert a.bit_generator.seed_seq.state == b.bit_generator.seed_seq.state


# ---------------------------------------------------------------- what is kept


@given(st.integers(0, 40), st.data())
def test_kept_sweeps_and_trace(n_iter, data):
    burn_in, thin = data.draw(st.integers(0, n_iter)), data.draw(st.integers(1, 50))
    chain = run_chain(Walk(), np.random.default_rng(0), n_iter, burn_in=burn_in, thin=thin)
    assert isinstance(chain, Chain) and not chain.interrupted
    assert chain.n_done == chain.state.inner.total == n_iter
    if n_iter:
        assert list(chain.trace) == ["sum", "size"]
        assert all(t.dtype == float and t.shape == (n_iter,) for t in chain.trace.values())
    # a sample made after sweep s (from 0) has seen s + 1 sweeps
    assert [s.inner.total - 1 for s in chain.samples] == list(range(n_iter))[burn_in::thin]
    assert [s.x.sum() for s in chain.samples] == list(
        chain.trace.get("sum", np.zeros(0))[burn_in::thin]
    )


def test_equals_the_bare_loop():
    rng, sampler = np.random.default_rng(4), Walk()
    state = sampler.init(rng)
    trace = []
    for _ in range(30):
        state, info = sampler.sweep(rng, state)
        trace.append(info["sum"])
    chain = run_chain(sampler, np.random.default_rng(4), 30)
    assert chain.trace["sum"].tolist() == trace and (chain.state.x == state.x).all()
    same_rng(chain.rng, rng)


def test_samples_do_not_share_memory_with_the_state_or_each_other():
    for sampler in Walk(), Snapped():
        chain = run_chain(sampler, np.random.default_rng(0), 5)
        arrays = [a for a in leaves([chain.state, chain.samples]) if isinstance(a, np.ndarray)]
        assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    assert [s["n"].sum() for s in chain.samples] == [1, 2, 3, 4, 5]


def test_given_state_is_copied_and_continued():
    first = run_chain(Walk(), np.random.default_rng(1), 5)
    before = first.state.inner.n.copy()
    more = run_chain(Walk(), first.rng, 5, state=first.state)
    assert (first.state.inner.n == before).all()
    whole = run_chain(Walk(), np.random.default_rng(1), 10)
    assert (more.state.x == whole.state.x).all()


def test_info_may_be_a_namedtuple_and_must_keep_its_names():
    class Info(NamedTuple):
        k: int
        f: float

    sampler = SimpleNamespace(
        init=lambda rng: Inner(np.zeros(1), 0), sweep=lambda rng, s: (s, Info(3, 0.5))
    )
    chain = run_chain(sampler, np.random.default_rng(0), 2)
    assert chain.trace["k"].tolist() == [3, 3] and chain.trace["f"].tolist() == [0.5, 0.5]
    names = iter("ab")
    sampler.sweep = lambda rng, s: (s, {next(names): 1.0})
    with pytest.raises(ValueError, match="sampler.sweep: info"):
        run_chain(sampler, np.random.default_rng(0), 2)


# ---------------------------------------------------------------- callbacks and progress


def test_callback_order():
    log = []

    class Logged(Walk):
        def sweep(self, rng, state):
            log.append("sweep")
            return super().sweep(rng, state)

        def snapshot(self, state):
            log.append("keep")
            return state

    run_chain(
        Logged(),
        np.random.default_rng(0),
        4,
        burn_in=1,
        thin=2,
        callback=lambda sweep, state: log.append((sweep, state.inner.total)),
    )
    assert log == [
        "sweep",
        (0, 1),
        "sweep",
        "keep",
        (1, 2),
        "sweep",
        (2, 3),
        "sweep",
        "keep",
        (3, 4),
    ]


def test_callback_sees_what_the_checkpoint_holds(tmp_path):
    seen = {}
    file = tmp_path / "c.npz"

    def look(sweep, state):
        if sweep:  # written after the callback before this one
            assert (load_npz(file)["state/x"] == seen[sweep - 1]).all()
        seen[sweep] = state.x.copy()

    run_chain(
        Walk(), np.random.default_rng(0), 6, callback=look, checkpoint=file, checkpoint_every=1
    )
    assert len(seen) == 6


def test_an_error_in_the_callback_comes_through_and_the_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError):
        run_chain(Walk(), np.random.default_rng(0), 6, callback=lambda *_: 1 / 0)
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_is_off_by_default_and_on_stderr(capsys):
    run_chain(Walk(), np.random.default_rng(0), 6)
    assert capsys.readouterr() == ("", "")
    run_chain(Walk(), np.random.default_rng(0), 6, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "1 chain: 100% (6 of 6 sweeps)" in err and " sum" in err
    run_chain(Walk(), np.random.default_rng(0), 6, progress="fitting")
    assert "fitting: 100%" in capsys.readouterr().err


def test_chains_share_their_progress(capsys, tmp_path):
    "In a file a line every tenth at most; a run that is resumed counts what was done."
    file = tmp_path / "c.npz"
    run_chains(Walk(), np.random.default_rng(0), 3, 4, checkpoint=file)
    run_chains(Walk(), np.random.default_rng(0), 3, 6, n_jobs=3, progress=True, checkpoint=file)
    out, err = capsys.readouterr()
    assert (
        out == ""
        and "3 chains: 100% (18 of 18 sweeps)" in err
        and "\r" not in err
        and 1 <= err.count("\n") <= 6
    )


# ---------------------------------------------------------------- checkpoint and resume


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 30), st.data())
def test_resume_is_bit_identical(tmp_path_factory, n_iter, data):
    burn_in, thin = data.draw(st.integers(0, n_iter)), data.draw(st.integers(1, 9))
    split, every = data.draw(st.integers(burn_in, n_iter)), data.draw(st.integers(1, 9))
    sampler = data.draw(st.sampled_from([Walk(), Snapped()]))
    file = tmp_path_factory.mktemp("resume") / "c.npz"
    whole = run_chain(sampler, np.random.default_rng(5), n_iter, burn_in=burn_in, thin=thin)
    kept = dict(burn_in=burn_in, thin=thin, checkpoint=file, checkpoint_every=every)
    run_chain(sampler, np.random.default_rng(5), split, **kept)
    assert_same(run_chain(sampler, np.random.default_rng(6), n_iter, **kept), whole)
    # done already: nothing is swept, the same comes back, and the file is not touched
    bytes_before = file.read_bytes()
    assert_same(run_chain(sampler, np.random.default_rng(7), n_iter, **kept), whole)
    assert file.read_bytes() == bytes_before and os.listdir(file.parent) == ["c.npz"]


@pytest.mark.parametrize(
    "kind",
    [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64],
)
def test_resume_with_every_bit_generator(tmp_path, kind):
    rng = lambda: np.random.Generator(kind(np.random.SeedSequence([3, 2**90], spawn_key=(5, 1))))
    whole = run_chain(Walk(), rng(), 20)
    run_chain(Walk(), rng(), 11, checkpoint=tmp_path / "c")  # no suffix: the name is kept as given
    assert_same(run_chain(Walk(), np.random.default_rng(0), 20, checkpoint=tmp_path / "c"), whole)
    assert os.listdir(tmp_path) == ["c"]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 40), st.integers(0, 40), st.data())
def test_a_longer_run_is_that_of_a_longer_plan(tmp_path_factory, planned, n_iter, data):
    "Samples after half of all sweeps are those of one run, or the checkpoint is refused and kept."
    thin, split = data.draw(st.integers(1, 5)), data.draw(st.integers(0, planned))
    file = tmp_path_factory.mktemp("longer") / "c.npz"

    def stop(sweep, state):
        if sweep + 1 == split:
            raise KeyboardInterrupt

    kept = dict(burn_in=None, thin=thin, checkpoint=file)
    done = run_chain(Walk(), np.random.default_rng(5), planned, callback=stop, **kept).n_done
    before = file.read_bytes()
    have, want = (
        {s for s in range(n // 2, done) if (s - n // 2) % thin == 0} for n in (planned, n_iter)
    )
    if done <= n_iter and want <= have:
        assert_same(
            run_chain(Walk(), np.random.default_rng(6), n_iter, **kept),
            run_chain(Walk(), np.random.default_rng(5), n_iter, burn_in=None, thin=thin),
        )
        assert_same(
            run_chain(Walk(), np.random.default_rng(7), n_iter, **kept),
            run_chain(Walk(), np.random.default_rng(5), n_iter, burn_in=n_iter // 2, thin=thin),
        )
    else:
        with pytest.raises(
            CheckpointError,
            match="n_iter: takes at least" if done > n_iter else f"give burn_in = {planned // 2}",
        ):
            run_chain(Walk(), np.random.default_rng(6), n_iter, **kept)
        assert file.read_bytes() == before and os.listdir(file.parent) == ["c.npz"]


def test_another_seed_is_refused(tmp_path):
    "If a seed is named, whether the run is done or not. Without one the run goes on."
    whole = run_chains(Walk(), np.random.default_rng(0), 2, 9)
    again = lambda n_iter, seed: run_chains(
        Walk(), np.random.default_rng(5), 2, n_iter, checkpoint=tmp_path / "c.npz", seed=seed
    )
    run_chains(Walk(), np.random.default_rng(0), 2, 6, checkpoint=tmp_path / "c.npz")
    before = [file.read_bytes() for file in sorted(tmp_path.iterdir())]
    for n_iter in (6, 9):
        with pytest.raises(
            CheckpointError,
            match=r"c-\d.npz: it was made with random_state = 0, now random_state = 5",
        ):
            again(n_iter, 5)
    assert [file.read_bytes() for file in sorted(tmp_path.iterdir())] == before
    for seed in (None, np.random.default_rng(5), 0, np.int64(0)):
        for one, two in zip(again(9, seed), whole, strict=True):
            assert_same(one, two)


def test_two_runs_on_one_checkpoint(tmp_path, monkeypatch):
    "The second is told of the first, which comes to no harm; neither needs the folder to stay."
    monkeypatch.chdir(tmp_path)
    whole, told = run_chain(Walk(), np.random.default_rng(0), 9), []

    def second():
        with pytest.raises(ValueError, match="c.npz: in use by process [0-9]+ on .*; let it end"):
            run_chain(Walk(), np.random.default_rng(0), 9, checkpoint=tmp_path / "c.npz")
        told.append(True)

    def callback(sweep, state):
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        os.chdir(tmp_path / "elsewhere")
        if sweep == 4:
            for where in (second, threading.Thread(target=second)):
                where() if where is second else (where.start(), where.join())

    end = run_chain(
        Walk(),
        np.random.default_rng(0),
        9,
        checkpoint="c.npz",
        checkpoint_every=1,
        callback=callback,
    )
    assert_same(end, whole)
    again = run_chain(Walk(), np.random.default_rng(1), 9, checkpoint=tmp_path / "c.npz")
    assert_same(again, whole)
    assert told == [True, True] and sorted(os.listdir(tmp_path)) == ["c.npz", "elsewhere"]


@pytest.mark.skipif(os.name == "nt", reason="needs links, which take a privilege on Windows")
def test_links_planted_beside_a_checkpoint_are_not_followed(tmp_path):
    "Names of temporary files cannot be guessed; that of the lock can, but no link is followed."
    (tmp_path / "precious").write_text("years of work")
    for name in ("c.npz.tmp", "c.npz.lock"):
        (tmp_path / name).symlink_to("precious")
    with pytest.raises(OSError, match="c.npz.lock"):
        run_chain(Walk(), np.random.default_rng(0), 3, checkpoint=tmp_path / "c.npz")
    (tmp_path / "c.npz.lock").unlink()
    run_chain(Walk(), np.random.default_rng(0), 3, checkpoint=tmp_path / "c.npz")
    assert (tmp_path / "precious").read_text() == "years of work"


def test_resume_false_begins_anew(tmp_path):
    file = tmp_path / "c.npz"
    run_chain(Walk(step=9.0), np.random.default_rng(0), 5, checkpoint=file)
    anew = run_chain(Walk(), np.random.default_rng(1), 5, checkpoint=file, resume=False)
    assert_same(anew, run_chain(Walk(), np.random.default_rng(1), 5))
    assert_same(anew, run_chain(Walk(), np.random.default_rng(2), 5, checkpoint=file))


def test_mismatch_is_refused_and_names_the_parameter(tmp_path):
    file = tmp_path / "c.npz"
    run_chain(Walk(), np.random.default_rng(0), 10, burn_in=2, checkpoint=file)
    before = file.read_bytes()

    class Other(Walk):
        pass

    class Integers(Walk):
        def init(self, rng):
            return super().init(rng)._replace(x=np.zeros(2, int))

        def params(self):
            return Walk.params(self)

    Integers.__name__ = "Walk"

    class Deeper(Walk):
        def init(self, rng):
            return super().init(rng)._replace(nothing=np.zeros(2))

    Deeper.__name__ = "Walk"

    class More(Walk):
        def params(self):
            return super().params() | {"more": 1}

    More.__name__ = "Walk"

    for sampler, n_iter, burn_in, thin, says in [
        (Walk(step=2.0), 10, 2, 1, "step = 1.0, now step = 2.0"),
        (Walk(data=np.arange(5)), 10, 2, 1, r"data = 'int64\[4\]"),
        (Walk(data=np.arange(4.0)), 10, 2, 1, "now data = 'float64"),
        (Other(), 10, 2, 1, "sampler = 'Walk'"),
        (More(), 10, 2, 1, "more = 'unknown', now more = 1"),
        (Walk(), 10, 3, 1, "burn_in = 2, now burn_in = 3"),
        (Walk(), 10, 2, 2, "thin"),
        (Integers(), 10, 2, 1, "state/x holds float64"),
        (Deeper(), 10, 2, 1, "state/nothing holds nothing"),
        (Walk(), 9, 2, 1, "n_iter: takes at least the 10"),
    ]:
        with pytest.raises(ValueError, match=says) as error:
            run_chain(
                sampler,
                np.random.default_rng(0),
                n_iter,
                burn_in=burn_in,
                thin=thin,
                checkpoint=file,
            )
        assert str(file) in str(error.value) and file.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.npz"]
    # the same number written differently is the same number
    run_chain(
        Walk(step=np.float64(1), data=np.arange(4)),
        np.random.default_rng(0),
        10,
        burn_in=2,
        checkpoint=file,
    )


def test_truncated_or_damaged_is_refused_or_harmless(tmp_path):
    file = tmp_path / "c.npz"
    whole = run_chain(Walk(), np.random.default_rng(0), 4, checkpoint=file)
    good = file.read_bytes()
    again = lambda: run_chain(Walk(), np.random.default_rng(1), 4, checkpoint=file)
    for size in [*range(0, len(good), 211), len(good) - 1]:
        file.write_bytes(good[:size])
        with pytest.raises(ValueError, match="checkpoint: can't resume from .*c.npz"):
            again()
        assert file.read_bytes() == good[:size]
    refused = 0
    for place in range(0, len(good), 97):  # one bit wrong: refused, or a bit that means nothing
        file.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        try:
            assert_same(again(), whole)
        except ValueError as error:
            assert "c.npz" in str(error)
            refused += 1
    assert refused > 20


def test_foreign_files_are_refused(tmp_path):
    file = tmp_path / "c.npz"
    run_chain(Walk(), np.random.default_rng(0), 4, checkpoint=file)
    good = load_npz(file)

    def refused(says):
        before = file.read_bytes()
        with pytest.raises(ValueError, match=says) as error:
            run_chain(Walk(), np.random.default_rng(0), 9, checkpoint=file)
        assert "c.npz" in str(error.value) and file.read_bytes() == before

    for text in b"", b"hello", b"PK\x03\x04", b"\x80\x04N.":  # the last: a pickle of None
        file.write_bytes(text)
        refused("whole .npz")
    with open(file, "wb") as f:
        np.save(f, np.arange(3))
    refused("whole .npz")
    with open(file, "wb") as f:
        np.savez(f, a=np.array([{}], dtype=object))
    refused("whole .npz")
    save_npz(file, {"a": np.arange(3)})
    refused("no checkpoint")
    for meta in "", "{}", "[]", '{"format": "other"}':
        save_npz(file, good | {"meta": np.array(meta)})
        refused("can't resume")
    meta = good["meta"].item()
    for wrong in (
        meta.replace("PCG64", "RandomState"),
        meta.replace("PCG64", "seed"),
        meta.replace('"n_done": 4', '"n_done": 5'),
        meta.replace('"n_samples": 4', '"n_samples": 5'),
        meta.replace("chain 1", "chain 2"),
    ):
        assert wrong != meta
        save_npz(file, good | {"meta": np.array(wrong)})
        refused("can't resume")
    save_npz(file, {k: a for k, a in good.items() if k != "state/x"})
    refused("state/x holds nothing")


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    class Bad:
        def __array__(self, *_, **__):
            raise OSError("disk full")

    save_npz(tmp_path / "a.npz", {"a": np.arange(3)})
    with pytest.raises(OSError, match="disk full"):
        save_npz(tmp_path / "a.npz", {"a": np.zeros(3), "b": Bad()})
    assert (
        os.listdir(tmp_path) == ["a.npz"]
        and (load_npz(tmp_path / "a.npz")["a"] == np.arange(3)).all()
    )
    with pytest.raises(FileNotFoundError):
        load_npz(tmp_path / "none.npz")


@pytest.mark.slow
def test_a_file_above_four_gigabytes(tmp_path):
    file, a = tmp_path / "large.npz", np.zeros(2**32 + 9, np.uint8)
    a[-9:] = range(9)
    save_npz(file, {"a": a, "b": np.arange(3)})
    back = load_npz(file)
    assert file.stat().st_size > 2**32 and (back["b"] == np.arange(3)).all()
    assert back["a"].shape == a.shape and (back["a"][-20:] == a[-20:]).all()
    os.truncate(file, file.stat().st_size - 100)
    with pytest.raises(ValueError, match="whole .npz file"):
        load_npz(file)


def test_what_cannot_be_stored_is_named_before_the_first_sweep(tmp_path):
    def never(rng, state):
        raise AssertionError("swept")

    odd = SimpleNamespace(init=lambda rng: {"a": object()}, sweep=never, params=dict)
    with pytest.raises(ValueError, match="state/a: "):
        run_chain(odd, np.random.default_rng(0), 5, checkpoint=tmp_path / "c.npz")
    odd = SimpleNamespace(init=lambda rng: {"a": 1}, sweep=never, params=lambda: {"f": print})
    with pytest.raises(ValueError, match="sampler.params"):
        run_chain(odd, np.random.default_rng(0), 5, checkpoint=tmp_path / "c.npz")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- killed

posix = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="needs SIGKILL, a signal of POSIX"
)
CHILD = """
import os, signal, sys
import numpy as np
from typing import NamedTuple
from hdp_nb.mcmc import chain

class State(NamedTuple):
    x: np.ndarray

class Big:
    def init(self, rng): return State(np.zeros(SIZE))
    def params(self): return {}
    def sweep(self, rng, state):
        state.x[:] += rng.normal(size=state.x.size)
        return state, {"x": state.x[0]}

def go(checkpoint, n_iter):
    rng, options = np.random.default_rng(2), dict(checkpoint=checkpoint, checkpoint_every=1)
    return chain.run_chain(Big(), rng, n_iter, thin=3, **options)
"""


def finish_and_compare(file, size, n_iter=40):
    "The checkpoint of a killed process can be read, and leads to what an unbroken run gives."
    space = {"SIZE": size}
    exec(CHILD, space)
    done = space["chain"].load_npz(file)["trace/x"].size if "trace/x" in load_npz(file) else 0
    assert_same(space["go"](file, n_iter), space["go"](None, n_iter))
    return done


@posix
@pytest.mark.parametrize("moment", ["half a file", "before fsync", "before rename"])
def test_killed_at_every_stage_of_writing(tmp_path, moment):
    die = """
count = 0
def deadly(f, keep=lambda *a: None):
    def g(*a, **k):
        global count
        count += 1
        if count == 12:
            keep(*a)
            os.kill(os.getpid(), signal.SIGKILL)
        return f(*a, **k)
    return g
""" + {
        "half a file": (
            "chain.np.savez = deadly(np.savez, lambda f: (f.write(b'PK' * 999), f.flush()))"
        ),
        "before fsync": "os.fsync = deadly(os.fsync)",
        "before rename": "os.replace = deadly(os.replace)",
    }[moment]
    file = tmp_path / "c.npz"
    code = CHILD + die + "\ngo(sys.argv[1], 40)"
    done = subprocess.run([sys.executable, "-c", "SIZE = 100\n" + code, str(file)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    left, torn, lock = sorted(os.listdir(tmp_path))
    assert (left, lock) == ("c.npz", "c.npz.lock") and re.fullmatch(
        r"c\.npz\.[0-9a-f]{8}\.tmp", torn
    )
    assert finish_and_compare(file, 100) == 10  # the first checkpoint is of 0 sweeps
    # Somebody may still be writing; the lock of a dead process is nobody's.
    assert sorted(os.listdir(tmp_path)) == [left, torn]
    (tmp_path / "c.npz.mine.tmp").touch()
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    finish_and_compare(file, 100)
    assert sorted(os.listdir(tmp_path)) == ["c.npz", "c.npz.mine.tmp"]  # the torn half is gone


@posix
def test_killed_at_any_moment(tmp_path):
    size, file = 200_000, tmp_path / "c.npz"  # big files: mostly it is writing
    code = f"SIZE = {size}\n" + CHILD + "print('go', flush=True)\ngo(sys.argv[1], 10**6)"
    for wait in np.random.default_rng(0).uniform(0.02, 0.2, 4):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE
        ) as child:
            child.stdout.readline()
            while not file.exists():
                assert child.poll() is None
                time.sleep(0.001)
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(wait)
            child.kill()
        finish_and_compare(file, size, n_iter=len(load_npz(file).get("trace/x", ())) + 1)


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_stops_between_sweeps_and_resumes_bit_identically(tmp_path):
    file, before = tmp_path / "c.npz", signal.getsignal(signal.SIGINT)

    class Pressed(Walk):
        "Ctrl-C comes in the middle of the seventh sweep."

        def sweep(self, rng, state):
            if state.inner.total == 6:
                signal.raise_signal(signal.SIGINT)
            return super().sweep(rng, state)

    Pressed.__name__ = "Walk"

    cut = run_chain(Pressed(), np.random.default_rng(3), 20, burn_in=2, thin=2, checkpoint=file)
    assert cut.interrupted and cut.n_done == 7 == cut.trace["sum"].size and len(cut.samples) == 3
    assert signal.getsignal(signal.SIGINT) is before
    whole = run_chain(Walk(), np.random.default_rng(3), 20, burn_in=2, thin=2)
    assert_same(
        run_chain(Walk(), np.random.default_rng(0), 20, burn_in=2, thin=2, checkpoint=file), whole
    )
    # without a checkpoint, the chain itself goes on
    cut = run_chain(Pressed(), np.random.default_rng(3), 20)
    assert (run_chain(Walk(), cut.rng, 13, state=cut.state).state.x == whole.state.x).all()


def test_ctrl_c_in_the_last_sweep_is_no_interruption():
    def press(sweep, state):
        if sweep == 4:
            signal.raise_signal(signal.SIGINT)

    chain = run_chain(Walk(), np.random.default_rng(3), 5, callback=press)
    assert chain.n_done == 5 and not chain.interrupted


def test_callback_may_end_the_run(tmp_path):
    def stop(sweep, state):
        if sweep == 4:
            raise KeyboardInterrupt

    chain = run_chain(
        Walk(), np.random.default_rng(3), 50, callback=stop, checkpoint=tmp_path / "c.npz"
    )
    assert chain.interrupted and chain.n_done == 5
    assert load_npz(tmp_path / "c.npz")["trace/sum"].size == 5


def test_interrupt_inside_a_sweep_keeps_the_last_whole_checkpoint(tmp_path):
    class Rude(Walk):
        def sweep(self, rng, state):
            if state.inner.total == 8:
                rng.random()
                raise KeyboardInterrupt
            return super().sweep(rng, state)

    Rude.__name__ = "Walk"
    file = tmp_path / "c.npz"
    cut = run_chain(Rude(), np.random.default_rng(3), 20, checkpoint=file, checkpoint_every=5)
    assert cut.interrupted and cut.n_done == cut.trace["sum"].size == len(cut.samples) == 8
    assert load_npz(file)["trace/sum"].size == 5
    assert_same(
        run_chain(Walk(), np.random.default_rng(0), 20, checkpoint=file),
        run_chain(Walk(), np.random.default_rng(3), 20),
    )


@posix
def test_second_ctrl_c_ends_it_at_once(tmp_path):
    code = """
import os, signal, sys, time
import numpy as np
from hdp_nb.mcmc.chain import run_chain
class Slow:
    def init(self, rng): return {"x": np.zeros(1)}
    def sweep(self, rng, state):
        print("sweeping", flush=True)
        for i in range(600): time.sleep(0.1)
        return state, {}
chain = run_chain(Slow(), np.random.default_rng(0), 3)
print("interrupted", chain.interrupted, chain.n_done)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "sweeping\n"
        child.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=20)[0] == "interrupted True 0\n"


def test_runs_outside_the_main_thread():
    out = []
    thread = threading.Thread(
        target=lambda: out.append(run_chain(Walk(), np.random.default_rng(1), 9))
    )
    thread.start()
    thread.join()
    assert_same(out[0], run_chain(Walk(), np.random.default_rng(1), 9))


# ---------------------------------------------------------------- several chains


@njit(nogil=True)
def stir(rng, x):
    for _ in range(2000):
        i = rng.integers(0, x.size)
        x[i] = 0.9 * x[i] + rng.standard_normal()


class Jitted:
    "A kernel that lets go of Python's lock."

    def init(self, rng):
        return Inner(rng.normal(size=50), 0)

    def params(self):
        return {}

    def sweep(self, rng, state):
        stir(rng, state.n)
        return state, {"mean": state.n.mean()}


@pytest.mark.parametrize("sampler", [Walk(), Jitted()], ids=["python", "nogil"])
def test_threads_give_the_serial_draws(sampler):
    run = lambda n_jobs: run_chains(
        sampler, np.random.default_rng(11), 5, 40, burn_in=3, thin=4, n_jobs=n_jobs
    )
    serial, threads = run(1), run(4)
    for one, two, rng in zip(serial, threads, np.random.default_rng(11).spawn(5), strict=True):
        assert_same(one, two)
        assert_same(one, run_chain(sampler, rng, 40, burn_in=3, thin=4))
    assert len({leaves(c.state)[1].tobytes() for c in serial}) == 5  # no two alike


def test_chains_overlap():
    "Two chains wait for each other: this ends only if both run at the same time."
    barrier = threading.Barrier(2, timeout=30)
    run_chains(Walk(), np.random.default_rng(0), 2, 3, n_jobs=2, callback=lambda *_: barrier.wait())


def test_chains_resume_bit_identically(tmp_path):
    kept = dict(burn_in=1, thin=2, checkpoint=tmp_path / "run.npz", n_jobs=2)
    run_chains(Walk(), np.random.default_rng(1), 3, 7, **kept)
    assert sorted(os.listdir(tmp_path)) == ["run-0.npz", "run-1.npz", "run-2.npz"]
    for one, two in zip(
        run_chains(Walk(), np.random.default_rng(9), 3, 15, **kept),
        run_chains(Walk(), np.random.default_rng(1), 3, 15, burn_in=1, thin=2),
    ):
        assert_same(one, two)


def test_ctrl_c_stops_all_chains(tmp_path):
    def press(sweep, state):
        if sweep == 5:
            signal.raise_signal(signal.SIGINT)  # raised in a thread, handled in the main one
        wait(sweep, state)

    def wait(sweep, state):
        time.sleep(0.002)

    kept = dict(checkpoint=tmp_path / "run.npz")
    cut = run_chains(
        Walk(), np.random.default_rng(1), 3, 3000, n_jobs=3, callback=[press, wait, wait], **kept
    )
    assert all(c.interrupted and c.n_done < 3000 and len(c.samples) == c.n_done for c in cut)
    n_iter = max(c.n_done for c in cut) + 3
    for one, two in zip(
        run_chains(Walk(), np.random.default_rng(0), 3, n_iter, **kept),
        run_chains(Walk(), np.random.default_rng(1), 3, n_iter),
    ):
        assert_same(one, two)


def test_an_error_in_one_chain_stops_the_others():
    counts = [0, 0]

    def count(sweep, state):
        counts[0] += 1
        threading.Event().wait(0.01)

    def fail(sweep, state):
        counts[1] += 1
        if sweep == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_chains(Walk(), np.random.default_rng(1), 2, 10**6, n_jobs=2, callback=[count, fail])
    assert counts[1] == 4 and counts[0] < 10**4


def test_states_per_chain():
    first = run_chains(Walk(), np.random.default_rng(1), 2, 4)
    more = run_chains(Walk(), np.random.default_rng(2), 2, 4, states=[c.state for c in first])
    assert [c.state.inner.total for c in more] == [8, 8]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "name, value",
    [
        ("n_iter", -1),
        ("n_iter", 2.5),
        ("n_iter", None),
        ("n_iter", True),
        ("n_iter", "9"),
        ("burn_in", -1),
        ("burn_in", 11),
        ("burn_in", 1.0),
        ("thin", 0),
        ("thin", np.nan),
        ("burn_in", "half"),
        ("checkpoint_every", 0),
        ("rng", 3),
        ("rng", None),
        ("rng", np.random.RandomState(0)),
        ("checkpoint", "no/such/folder/c.npz"),
        ("checkpoint", "."),
    ],
)
def test_bad_arguments_are_named(name, value):
    arguments = dict(rng=np.random.default_rng(0), n_iter=10) | {name: value}
    with pytest.raises(ValueError, match=f"^{name}(: takes| must be) .* got "):
        run_chain(Walk(), **arguments)
    with pytest.raises(ValueError, match=f"^{name}(: takes| must be) .* got "):
        run_chains(Walk(), n_chains=2, **arguments)


@pytest.mark.parametrize(
    "name, value",
    [("n_chains", 0), ("n_chains", 1.5), ("states", [None]), ("callback", [print] * 3)],
)
def test_bad_arguments_of_run_chains(name, value):
    with pytest.raises(ValueError, match=f"^{name}(: takes| must be) .* got "):
        run_chains(Walk(), np.random.default_rng(0), **dict(n_chains=2, n_iter=3) | {name: value})


def test_numpy_integers_are_integers():
    chain = run_chain(
        Walk(), np.random.default_rng(0), np.int64(6), burn_in=np.int32(2), thin=np.uint8(2)
    )
    assert chain.n_done == 6 and len(chain.samples) == 2


class Loose(Walk):
    "A state that is no nest of arrays."

    def init(self, rng):
        return SimpleNamespace(seen=[])

    def sweep(self, rng, state):
        state.seen.append(len(state.seen))
        return state, {"n": len(state.seen)}


def test_samples_of_any_state_are_those_of_their_sweeps():
    chain = run_chain(Loose(), np.random.default_rng(0), 5)
    assert [len(sample.seen) for sample in chain.samples] == [1, 2, 3, 4, 5]


def test_chains_of_another_plan_are_not_continued():
    "Neither another number of them, nor another burn-in or thinning."
    plan = dict(burn_in=4, thin=2)
    run = lambda n=2, n_iter=20, **more: run_chains(
        Walk(), np.random.default_rng(0), n, n_iter, **{**plan, **more}
    )
    one, two = run(n_iter=10), run()
    for a, b in zip(run(chains=one), two, strict=True):
        assert_same(a, b)
    for more, message in (
        ({"n": 3}, r"^chains: takes one entry per chain \(3\), got 2"),
        ({"n": 1}, r"^chains: takes one entry per chain \(1\), got 2"),
        ({"thin": 3}, "^chains: takes those of burn_in = 4, thin = 3, got 8 samples"),
        ({"burn_in": 5}, "^chains: takes those of burn_in = 5, thin = 2, got 8 samples .* after 4"),
    ):
        with pytest.raises(ValueError, match=message):
            run(n_iter=30, chains=two, **more)


def test_names_of_parameters(tmp_path):
    "A parameter may be NaN, and be called anything but what the run calls its own."

    class Named(Walk):
        more: dict = {}

        def params(self):
            return {**super().params(), **self.more}

    run = lambda n: run_chain(
        Named(), np.random.default_rng(0), n, checkpoint=tmp_path / "chain.npz"
    )
    Named.more = {"cap": np.nan}
    run(5)
    assert run(8).n_done == 8
    for name in ("thin", "burn_in", "sampler"):
        Named.more = {name: 3}
        with pytest.raises(ValueError, match=rf"^sampler.params\(\): \['{name}'\] are names"):
            run(10)
