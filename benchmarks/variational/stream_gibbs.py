"""Streams that are sampled, beside variational ones and the direct sampler, by CPU time.

    python -m benchmarks.variational.stream_gibbs [--sets zipf drift sotu kjv cgc nips long]
        [--seeds 2]

One pass over a set, held-out documents scored by completion (four fifths of their words are seen)
with the E-step's weights for all models. zipf: 20,000 documents of 100 words over 3,000, of 95
topics whose frequencies are 1/rank; drift: the same topics, of which 60 come into the stream only
in its second, third and fourth quarter, and whose documents come in this order, by partial_fit;
long: the fifty million tokens of streaming.py, 250,000 documents over 20,000 words, of 95 topics
above a ten-thousandth; sotu, kjv: the bundled texts; cgc, nips, in the folder that HDP_NB_DATA
names: abstracts, and papers with their sections as one corpus; a tenth of a text is held out.
But for drift, documents come in random order, by fit. OnlineHDP, e_step="variational" and
e_step="gibbs", otherwise as they are by default; the latter also with its first minibatch dealt out
among 10 and 300 topics, in place of 100; the direct sampler from 100 topics, eta learned,
stopped after the CPU time of the latter, twice, and four times that; and the same with its moves. A
topic is found at a cosine of .9. Everything has been compiled before the clock starts. Sets that
are run replace their rows of the results.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.common import cosines, machine, nips_sections, save, saved, table
from benchmarks.common import load as load_set
from benchmarks.distributed import streaming
from hdp_nb import HDP, OnlineHDP
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.evaluation.scores import document_completion
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.variational.bound import VariationalState
from hdp_nb.variational.online import predict_tokens

STREAMS = {
    "variational": {"e_step": "variational"},
    "gibbs from 10": {"e_step": "gibbs", "n_topics": 1},
    "gibbs from 300": {"e_step": "gibbs", "n_topics": 30},
    "gibbs": {"e_step": "gibbs"},
}
SETS = ["zipf", "drift", "sotu", "kjv", "cgc", "nips", "long"]
FILES = {"cgc": Path(os.environ.get("HDP_NB_DATA", ".")) / "cgc" / "cgc.npz"}
K, V, LENGTH, ALPHA, ETA = 95, 3000, 100, 2.0, 0.05


class Known:
    "A variational state with what a score needs."

    def __init__(self, *state):
        self.state = VariationalState(*state)

    def log_predictive(self, observed, heldout, random_state=None):
        return np.log(predict_tokens(observed, heldout, self.state))


def planted(n_docs, seed, hidden=0):
    "Documents of the planted topics, without `hidden` of them; and the topics."
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    phi = fixed.dirichlet(np.full(V, ETA), K)
    beta = 1 / np.arange(1, K + 1)
    beta[np.random.default_rng(3).permutation(K)[:hidden]] = 1e-9
    pi = rng.dirichlet(ALPHA * beta / beta.sum(), n_docs)
    parts = [rng.multinomial(LENGTH, pi[i : i + 500] @ phi) for i in range(0, n_docs, 500)]
    return sp.vstack([sp.csr_array(part) for part in parts]).tocsr(), phi


def load(name, seed):
    "Documents to learn in the order of the stream, documents to score, topics if they are known."
    if name in ("zipf", "drift"):
        hidden = [0] * 4 if name == "zipf" else [60, 40, 20, 0]
        X = sp.vstack([planted(5000, [seed, q], n)[0] for q, n in enumerate(hidden)])
        test, phi = planted(400, [seed, 9])
        return Corpus.from_matrix(X.tocsr()), Corpus.from_matrix(test), phi
    if name == "long":
        parts = [*streaming.shards(50_000_000, 1)]  # one after the other in one array
        x, lengths = (np.concatenate([getattr(p, a) for p in parts]) for a in ("x", "doc_lengths"))
        [test], (beta, phi) = streaming.shards(500 * streaming.LENGTH, 2), streaming.truth()
        corpus = Corpus(x, np.append(0, np.cumsum(lengths)), n_words=streaming.V)
        return corpus, test, phi[beta > 1e-4]
    corpus = nips_sections() if name == "nips" else load_set(FILES.get(name, name))[0]
    rng = np.random.default_rng(seed)
    train, test = corpus.split_docs(corpus.n_docs // 10, rng)
    return train[rng.permutation(train.n_docs)], test, None


def judge(state, test, phi):
    "Score, topics, and how many planted ones are found."
    lam = state[0]
    found = None
    if phi is not None:
        found = int((cosines(phi, lam.T).max(axis=1) > 0.9).sum())
    score = document_completion(Known(*state), test, random_state=0)
    return {"score": round(score, 4), "topics": lam.shape[1], "found": found}


def stream(train, options, seed, in_order):
    "State after one pass, CPU seconds."
    began = time.process_time()
    model = OnlineHDP(**options, n_passes=1, n_jobs=1, random_state=seed)
    if in_order:
        for lo in range(0, train.n_docs, 4000):
            model.partial_fit(train[lo : lo + 4000])
    else:
        model.fit(train)
    fields = ("lam", "beta", "alpha", "gamma", "eta")
    return [model.state_[name] for name in fields], time.process_time() - began


def sampler(train, marks, seed, judged, **params):
    "What the direct sampler has at some CPU times."
    clock, spent, rows, marks = [time.process_time()], [0.0], [], list(marks)

    def look(sweep, state):
        spent[0] += time.process_time() - clock[0]
        if marks and spent[0] >= marks[0]:
            n = int(state.K)
            beta = np.append(state.beta[:n], 1 - state.beta[:n].sum())
            lam = state.n_vk[:, :n] + float(state.eta)
            known = lam, beta, state.alpha, state.gamma, state.eta
            row = {"s": round(spent[0], 1), "sweeps": sweep + 1}
            while marks and spent[0] >= marks[0]:
                marks.pop(0)
                rows.append(row | judged(known))
        if not marks:
            raise KeyboardInterrupt
        clock[0] = time.process_time()

    common = {"eta": Gamma(1, 1), "n_iter": 20_000, "n_chains": 1, "n_jobs": 1}
    HDP(sampler="direct", init=100, random_state=seed, **common, **params).fit(train, callback=look)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    small = load("kjv", 0)[0][:200]
    for e_step in ("variational", "gibbs"):
        model = OnlineHDP(e_step=e_step, batch_size=100).partial_fit(small[:100])
        model.partial_fit(small[100:])
    for moves in ("auto", 0):
        HDP(sampler="direct", eta=Gamma(1, 1), n_iter=120, n_chains=1, moves=moves).fit(small[:50])
    for name in options.sets:
        rows = [row for row in saved("stream_gibbs").get("rows", []) if row["set"] != name]
        for seed in range(options.seeds if name != "long" else 1):
            train, test, phi = load(name, seed)
            judged = lambda state, test=test, phi=phi: judge(state, test, phi)
            case = {"set": name, "seed": seed}
            for model, params in STREAMS.items():
                state, seconds = stream(train, params, seed, name == "drift")
                print(name, seed, model, round(seconds, 1), flush=True)
                found = {"model": model, "s": round(seconds, 1), "times": 1}
                rows.append(case | found | judged(state))
            marks = [seconds, 2 * seconds, 4 * seconds]
            for row, times in zip(sampler(train, marks, seed, judged, moves=0), (1, 2, 4)):
                rows.append(case | {"model": "direct", "times": times} | row)
            if name != "long":
                for row in sampler(train, marks[:1], seed, judged):
                    rows.append(case | {"model": "direct, moves", "times": 1} | row)
            names = ["set", "seed", "model", "times", "s", "score", "topics", "found"]
            table(names, [[str(row[n]) for n in names] for row in rows[-8:]])
            save("stream_gibbs", {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
