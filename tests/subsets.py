"""All subsets of k of n classes, and the law p(z) ~ exp(z . logits) on them, in float64."""

import itertools

import numpy as np
import scipy.special


def subsets(n, k):
    """`[binomial(n, k), n]`, every k-hot vector."""
    rows = [np.isin(np.arange(n), chosen) for chosen in itertools.combinations(range(n), k)]
    return np.array(rows, np.float64)


class Law:
    """One row of logits, enumerated."""

    def __init__(self, logits, k):
        logits = np.asarray(logits, np.float64)
        self.states = subsets(len(logits), k)
        scores = self.states @ logits
        self.log_partition = scipy.special.logsumexp(scores)
        self.log_probs = scores - self.log_partition
        self.probs = np.exp(self.log_probs)
        self.marginals = self.probs @ self.states
        self.entropy = -np.sum(self.probs * self.log_probs)
        centered = self.states - self.marginals
        self.covariance = centered.T @ (centered * self.probs[:, None])
        self.variance = np.diag(self.covariance)

    def kl(self, other):
        return np.sum(self.probs * (self.log_probs - other.log_probs))

    def counts(self, samples):
        """How often each of the states is among k-hot `samples`."""
        code = 2 ** np.arange(self.states.shape[1])
        order = np.argsort(self.states @ code)
        place = np.searchsorted((self.states @ code)[order], np.asarray(samples) @ code)
        counts = np.zeros(len(order))
        counts[order] = np.bincount(place, minlength=len(order))
        return counts


def without_replacement(logits, k):
    """P(set) for k classes drawn one after another from softmax(logits), as in `subsets`."""
    weights = np.exp(np.asarray(logits, np.float64))
    probs = []
    for state in subsets(len(weights), k):
        total = 0.0
        for order in itertools.permutations(np.flatnonzero(state)):
            left, path = weights.sum(), 1.0
            for chosen in order:
                path *= weights[chosen] / left
                left -= weights[chosen]
            total += path
        probs.append(total)
    return np.array(probs)
