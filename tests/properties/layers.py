"""The sampling layers in the form of `table.Subject`, in each of their modes."""

import numpy as np

import tfconcrete as tfc
from tests.properties.table import Subject

L = tfc.layers


def _layer(make, training=True, **kwargs):
    """A layer of the case's dtype, axis, temperature and seed."""

    def bind(case):
        arguments = {"dtype": case.dtype, "seed": case.seed % 2**31, **kwargs}
        if case.axis is not None:
            arguments["axis"] = case.axis
        # One number for each layer; the functions below take the others.
        temperature = float(np.ravel(case.temperature)[0]) if case.temperature.size else 1.0
        layer = make(temperature=temperature, **arguments)
        return lambda x, t, mask: layer(x, class_mask=mask, training=training)

    return bind


def _training(make, kind, **kwargs):
    return Subject(None, kind, make=_layer(make, **kwargs))


def _inference(make, mode, kind):
    return Subject(None, kind, gradient=mode == "probs", make=_layer(make, False, inference=mode))


LAYERS = {
    "concrete": _training(L.ConcreteSample, "simplex"),
    "concrete_hard": _training(L.ConcreteSample, "one_hot", hard=True),
    "exp_concrete": _training(L.ExpConcreteSample, "log_simplex"),
    "bin_concrete": _training(L.BinConcreteSample, "interval"),
    "bin_concrete_hard": _training(L.BinConcreteSample, "bits", hard=True),
    "straight_through": _training(L.StraightThrough, "one_hot"),
    "gumbel_rao": _training(L.GumbelRao, "one_hot", num_samples=2),
    "gapped": _training(L.GapStraightThrough, "one_hot"),
    "gapped_pi_soft": _training(L.GapStraightThrough, "simplex", gap="pi", hard=False),
    "reinmax": _training(L.ReinMax, "one_hot"),
    "argmax": _inference(L.ConcreteSample, "argmax", "one_hot"),
    "sample": _inference(L.ConcreteSample, "sample", "one_hot"),
    "probs": _inference(L.ConcreteSample, "probs", "simplex"),
    "exp_argmax": _inference(L.ExpConcreteSample, "argmax", "log_simplex"),
    "exp_probs": _inference(L.ExpConcreteSample, "probs", "log_simplex"),
    "bin_argmax": _inference(L.BinConcreteSample, "argmax", "bits"),
    "bin_sample": _inference(L.BinConcreteSample, "sample", "bits"),
    "bin_probs": _inference(L.BinConcreteSample, "probs", "interval"),
}
