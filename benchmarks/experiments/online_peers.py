"""Peers of online inference, in the form in which it is scored, for online_text.py and
online_nips.py: gensim's HdpModel, which is the algorithm of Wang, Paisley & Blei (2011) and
oHDP-CRF in Bryant & Sudderth (2012), and scikit-learn's online LDA.

Each is begun with a corpus, takes the rows of one minibatch after another in `step(rows)`, and its
`state()` is (lam, beta, alpha, gamma, eta). Neither learns eta.
"""

import numpy as np
from gensim.models import HdpModel
from sklearn.decomposition import LatentDirichletAllocation


class _ByHand(HdpModel):
    "Learns nothing when it is made: minibatches come later, in an order of ours."

    def update(self, corpus):
        pass


class Gensim:
    "T topics at most, 15 in a document, as gensim has it."

    def __init__(self, train, T, eta, seed, kappa=0.6, tau=1.0):
        self.docs, self.eta = train.to_gensim()[0], eta
        names = {v: str(v) for v in range(train.n_words)}
        self.model = _ByHand(
            self.docs, names, T=T, eta=eta, kappa=kappa, tau=tau, random_state=seed
        )

    def step(self, rows):
        self.model.update_chunk([self.docs[j] for j in rows])

    def state(self):
        self.model.update_expectations()  # it is behind with words that have not come for a while
        weights, phi = self.model.hdp_to_lda()
        total = weights.sum()
        return phi.T * 1e6, np.append(weights / total, 1e-12), total, 1.0, self.eta


class ScikitLearn:
    "K topics, alpha the sum of their weights."

    def __init__(self, train, K, eta, seed, alpha=1.0, kappa=0.6, tau=1.0):
        self.counts, self.K, self.eta, self.alpha = train.to_matrix().tocsr(), K, eta, alpha
        self.model = LatentDirichletAllocation(
            K,
            doc_topic_prior=alpha / K,
            topic_word_prior=eta,
            learning_decay=kappa,
            learning_offset=tau,
            total_samples=train.n_docs,
            random_state=seed,
        )

    def step(self, rows):
        self.model.partial_fit(self.counts[rows])

    def state(self):
        shares = np.append(np.full(self.K, 1 / self.K), 1e-12)
        return self.model.components_.T.copy(), shares, self.alpha, 1.0, self.eta
