"""Letters of a book: the HDP-HMM against hidden Markov models with 1 to 30 states (section 7.1 of
Teh et al. 2006).

    python -m benchmarks.experiments.alice [--splits 5]
        [--states 1 2 3 4 6 8 10 12 15 18 21 24 27 30] [--restarts 8] [--sweeps 2000] [--without]

Twenty sentences of Alice to learn from, forty others to predict, five times. Nothing is chosen on
test sentences.

The HDP-HMM (alpha, gamma and eta from Gamma(1, 1)): two chains from one state and two from fifty,
with the moves that split and merge states (--without: and without), scored by the posterior
predictive (ten walks for each of forty samples a chain) and by the plug-in. Maximum likelihood
(ml), maximum a posteriori (map) and variational Bayes (vb), the last two with the hyperparameters
of the HDP-HMM: EM from several random starts to a gain below 1e-7 a letter, the start with the
best objective being the one that counts. What is noted of ml: its perplexity when rows are mixed
with several shares of the uniform distribution, each; with EM stopped early, at 1e-4; and the pair
of share and stop that predicts held-out training sentences best (four folds), which is the one to
be believed. Of vb: how many states have a visit or more in the training sentences.

Splits that are in results/alice.json already are not made again, nor is the HDP-HMM of a split if
only the numbers of states or of restarts differ.
"""

import argparse
import itertools
import time
import warnings

from benchmarks.common import machine, save, saved, table

SHARES = (1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3)
STOPS = (1e-4, 1e-7)
LONGEST = 1000
CHAINS = {"from 1": 1, "from 50": 50}


def cut(corpus, seed, n_train=20, n_test=40):
    "Sentences to learn from, and others: (symbols, lengths) each."
    import numpy as np

    rng, n = np.random.default_rng(seed), corpus.doc_lengths
    order = rng.permutation(corpus.n_docs)
    train = [j for j in order if 30 <= n[j] <= 72][:n_train]
    test = [j for j in order if 60 <= n[j] <= 140 and j not in train][:n_test]
    return [take(corpus, js) for js in (train, test)]


def take(corpus, js):
    import numpy as np

    return np.concatenate([corpus[j] for j in js]), corpus.doc_lengths[js]


def pieces(sentences):
    "Every sentence by itself."
    import numpy as np

    return np.split(sentences[0], np.cumsum(sentences[1])[:-1])


def part(sentences, chosen):
    "Some of the sentences."
    import numpy as np

    every = pieces(sentences)
    return np.concatenate([every[i] for i in chosen]), sentences[1][chosen]


def perplexity(log_p, sentences):
    import numpy as np

    return round(float(np.exp(-np.sum(log_p) / sentences[1].sum())), 4)


def visits(model, sentences):
    "Expected visits to every state of a fitted FiniteHMM, by forward-backward."
    import numpy as np

    total = np.zeros(len(model.startprob_))
    for x in pieces(sentences):
        f, p = model.emissionprob_[:, x].T, model.transmat_
        ahead, back = np.empty(f.shape), np.ones(f.shape)
        for t in range(len(x)):
            ahead[t] = f[t] * (ahead[t - 1] @ p if t else model.startprob_)
            ahead[t] /= ahead[t].sum()
        for t in range(len(x) - 1, 0, -1):
            back[t - 1] = p @ (f[t] * back[t])
            back[t - 1] /= back[t - 1].sum()
        both = ahead * back
        total += (both / both.sum(axis=1, keepdims=True)).sum(axis=0)
    return total


def climb(method, K, train, hyper, seeds, tol):
    "Fits from several starts, the one with the best objective first."
    from hdp_nb.sequences.finite import FiniteHMM

    fits = [
        FiniteHMM(
            K,
            method=method,
            alpha=hyper["alpha"] / K,
            eta=hyper["eta"],
            n_symbols=27,
            n_iter=LONGEST,
            tol=tol,
            n_restarts=1,
            random_state=1000 * K + seed,
        ).fit(*train)
        for seed in seeds
    ]
    return sorted(fits, key=lambda model: -model.objective_[-1])


def chosen(K, train, hyper):
    "Stop and share, as numbers in the lists, by four folds of the training sentences."
    import numpy as np

    pile = np.arange(len(train[1])) % 4
    loss = np.zeros((len(STOPS), len(SHARES)))
    for fold in range(4):
        inner, outer = (part(train, np.flatnonzero(keep)) for keep in (pile != fold, pile == fold))
        for i, tol in enumerate(STOPS):
            model = climb("ml", K, inner, hyper, range(2), tol)[0]
            for j, share in enumerate(SHARES):
                loss[i, j] -= model.set_params(floor=share).score(*outer)
    i, j = np.unravel_index(loss.argmin(), loss.shape)
    return int(i), int(j)


def infinite(train, test, seed, n_iter, arms):
    "The HDP-HMM from one state and from fifty; its hyperparameters."
    import numpy as np

    from hdp_nb import HDPHMM, Gamma
    from hdp_nb.mcmc.convergence import split_rhat

    found, hyper = {}, {}
    for moves, (start, k) in itertools.product(arms, CHAINS.items()):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = HDPHMM(
                prior={"eta": Gamma(1, 1), "n_symbols": 27},
                moves=moves,
                n_iter=n_iter,
                thin=n_iter // 80,
                init=k,
                n_jobs=1,
                random_state=seed,
            ).fit(*train)
        seconds, last = time.process_time() - began, slice(model.burn_in_, None)
        log_p = {
            method: model.score_samples(*test, method=method)
            for method in ("predictive", "plug-in")
        }
        found[f"{'with' if moves else 'without'} moves, {start}"] = {
            **{method: perplexity(values, test) for method, values in log_p.items()},
            "states": model.traces_["n_states"][:, ::80].astype(int).tolist(),
            **{
                name: model.traces_[name][:, last].mean(axis=1).round(3).tolist()
                for name in ("n_states", "states_above_1%", "alpha", "gamma", "eta")
            },
            "seconds": round(seconds, 1),
        }
        found.setdefault("both", {}).setdefault(str(moves), []).append(
            (log_p, {name: trace[:, last] for name, trace in model.traces_.items()})
        )
    for moves, ((p, a), (q, b)) in found.pop("both").items():
        traces = {name: np.concatenate([a[name], b[name]]) for name in a}
        how = "with" if moves == "auto" else "without"
        watched = ("n_states", "states_above_1%", "log_mixture", "alpha", "eta")
        found[f"{how} moves"] = {
            **{
                method: perplexity(np.logaddexp(p[method], q[method]) - np.log(2), test)
                for method in p
            },
            "rhat": {name: round(float(split_rhat(traces[name])), 3) for name in watched},
        }
        if moves == "auto":
            hyper = {name: float(traces[name].mean()) for name in ("alpha", "eta")}
    return found, hyper


def split(corpus, seed, options, former):
    "All models on one split; `former` is what there is of it."
    train, test = cut(corpus, seed)
    if former:
        hdp, hyper = former["HDP-HMM"], former["hyper"]
    else:
        arms = ("auto", 0) if options.without else ("auto",)
        hdp, hyper = infinite(train, test, seed, options.sweeps, arms)
    row = {
        "lengths": [round(float(n.mean()), 1) for _, n in (train, test)],
        "HDP-HMM": hdp,
        "hyper": {name: round(value, 4) for name, value in hyper.items()},
        "K": options.states,
        "restarts": options.restarts,
    }
    for method in ("ml", "map", "vb"):
        row[method], seconds = [], time.process_time()
        for K in options.states:
            fits = climb(method, K, train, hyper, range(options.restarts), STOPS[-1])
            floors = SHARES if method == "ml" else (0.0,)
            every = [  # of starts but the best with the smallest share only
                [
                    perplexity(m.set_params(floor=share).score(*test), test)
                    for share in floors[: None if m is fits[0] else 1]
                ]
                for m in fits
            ]
            note = {
                "perplexity": every,
                "iterations": [len(m.objective_) for m in fits],
                "in use": [int((visits(m, train) >= 1).sum()) for m in fits[:1]],
            }
            if method == "ml":
                early = climb("ml", K, train, hyper, range(options.restarts), STOPS[0])[0]
                note["early"] = [
                    perplexity(early.set_params(floor=share).score(*test), test) for share in SHARES
                ]
                i, j = chosen(K, train, hyper)
                note["chosen"] = [i, j]
                note["believed"] = (note["early"], every[0])[i][j]
            row[method].append(note)
        row[method + " seconds"] = round(time.process_time() - seconds, 1)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument(
        "--states", nargs="+", type=int, default=[1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 24, 27, 30]
    )
    parser.add_argument("--restarts", type=int, default=8)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--without", action="store_true", help="chains without moves, too")
    options = parser.parse_args()
    from hdp_nb.corpora.readers import load_corpus

    corpus = load_corpus("alice")
    found = saved("alice") or {"splits": {}}
    found |= {"shares": SHARES, "stops": STOPS, "sweeps": options.sweeps}
    found |= {"restarts": options.restarts, "sentences": corpus.n_docs}
    for seed in range(options.splits):
        former = found["splits"].get(str(seed), {})
        wanted = options.states, options.restarts
        if (former.get("K"), former.get("restarts")) != wanted:
            found["splits"][str(seed)] = split(corpus, seed, options, former)
            found["machine"] = machine()
            save("alice", found)
        row = found["splits"][str(seed)]
        print(f"\nsplit {seed}: HDP-HMM {row['HDP-HMM']['with moves']}", flush=True)
        table(
            ["K", "ml believed", "ml, 1e-8", "ml, .01", "map", "vb", "vb in use"],
            [
                [
                    K,
                    row["ml"][i]["believed"],
                    row["ml"][i]["perplexity"][0][0],
                    row["ml"][i]["perplexity"][0][4],
                    row["map"][i]["perplexity"][0][0],
                    row["vb"][i]["perplexity"][0][0],
                    row["vb"][i]["in use"][0],
                ]
                for i, K in enumerate(row["K"])
            ],
        )


if __name__ == "__main__":
    main()
