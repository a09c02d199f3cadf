"""Score-function estimators of E_q[f(z)] and of the multi-sample bound, on exact samples.

Concrete, section 2.2; GST, section 2.1. One form for all: an objective and logits in, a
surrogate `[*batch]` out, to be maximised where the objective is.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfconcrete._checks import check_count
from tfconcrete._typing import Seed, TensorLike
from tfconcrete.estimators.discrete_latent import (
    check_objective,
    evaluate_objective,
    sample_and_log_prob,
)
from tfconcrete.estimators.surrogates import (
    NVILResult,
    nvil_surrogate,
    reinforce_surrogate,
    rloo_surrogate,
    vimco_surrogate,
)


def _draw_and_evaluate(objective, logits, num_samples, class_mask, axis, batch_ndims, seed):
    check_objective(objective)
    sample, log_q = sample_and_log_prob(logits, num_samples, class_mask, axis, batch_ndims, seed)
    return evaluate_objective(objective, sample, log_q), log_q


def reinforce(
    objective: Callable,
    logits: TensorLike,
    num_samples: int = 1,
    baseline: Any = 0.0,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    batch_ndims: int = 1,
    seed: Seed = None,
) -> tf.Tensor:
    """REINFORCE, the plain score-function estimator (Williams, 1992; Concrete, Eq. 4-5).

    Forward: the mean of f(z) over exact draws z from q.
    Backward: mean of (f(z) - baseline) d log q(z) + df(z).
    Bias: none. The variance grows with the distance of f from the baseline.

    Args:
        objective: callable `(sample, log_q) -> values`. `sample` is
            `[num_samples, *logits.shape]`, one-hot along `axis` (0 and 1 for binary units),
            in the dtype of `logits`; `log_q`, `[num_samples, *batch]`, is the sample's log
            probability, for an objective such as the ELBO that depends on q. It returns
            f(z), `[num_samples, *batch]`. Gradients pass through it to `log_q` and to
            whatever else it uses (a decoder). In a mean of ELBOs the gradient of `log_q`
            inside f is zero on average: `tf.stop_gradient(log_q)` saves its noise.
        logits: float tensor `[*batch, ..., num_classes]`: after `batch_ndims` batch
            dimensions, independent variables and their classes (along `axis`); with
            `axis=None`, `[*batch, ...]`, independent binary units with one logit each.
        num_samples: Draws per example.
        baseline: number or tensor that broadcasts to `[num_samples, *batch]`; a sample's
            baseline must not depend on that sample. No gradient passes.
        class_mask: boolean, broadcast against `logits`; True keeps the class. A masked
            class is never drawn and has gradient zero; a masked binary unit is 0.
        axis: The class axis; None for binary units.
        batch_ndims: How many leading dimensions of `logits` are the batch.
        seed: An int, an int32 `[2]` tensor or a `keras.random.SeedGenerator`.

    Returns:
        Tensor `[*batch]`, float32 where `logits` are half precision.

    Example:

    >>> logits = tf.Variable(tf.zeros([1, 2, 3]))
    >>> def objective(sample, log_q):
    ...     return tf.reduce_sum(sample[..., 0], axis=-1)
    >>> with tf.GradientTape() as tape:
    ...     loss = -tfc.estimators.reinforce(objective, logits, num_samples=8, seed=0)
    >>> tape.gradient(loss, logits).shape
    TensorShape([1, 2, 3])

    Reference: Williams (1992), Simple statistical gradient-following algorithms for
    connectionist reinforcement learning.
    """
    check_count(num_samples, "num_samples")
    values, log_q = _draw_and_evaluate(
        objective, logits, num_samples, class_mask, axis, batch_ndims, seed
    )
    return reinforce_surrogate(values, log_q, baseline)


def nvil(
    objective: Callable,
    logits: TensorLike,
    num_samples: int = 1,
    baseline: Any = 0.0,
    moments: Any = None,
    normalize: bool = False,
    decay: float = 0.8,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    batch_ndims: int = 1,
    seed: Seed = None,
) -> NVILResult:
    """NVIL: REINFORCE with a learned baseline, running centring and variance normalisation.

    Forward: the mean of f(z) over exact draws z from q.
    Backward: mean of (f(z) - b - c) / s d log q(z) + df(z), with b the learned baseline, c
    the running mean of f(z) - b and s = max(1, its running standard deviation).
    Bias: none with `normalize=False`, where s = 1; dividing by s rescales the gradient of
    the logits (and not that of df). The moments used are those given, of earlier steps: the
    original updates them with the current batch first, which makes c depend on the sample.

    The state lives with the caller: minimise `-surrogate + baseline_loss`, and feed the
    moments that come out of one step into the next.

    Args:
        objective, logits, num_samples, class_mask, axis, batch_ndims, seed: as in
            `reinforce`.
        baseline: number or tensor that broadcasts to `[num_samples, *batch]`, usually a
            network's output for each example, `[batch]`. It learns from `baseline_loss`
            alone.
        moments: `(mean, variance)` of f(z) - b over earlier steps, two scalars, `(0., 0.)`
            at the start; None for no centring.
        normalize: Whether to divide by s; needs `moments`.
        decay: The share of the old moments in the new ones, from 0 to 1.

    Returns:
        `NVILResult(surrogate, baseline_loss, moments)`: the surrogate `[*batch]`; the mean
        of (f(z) - b - c)^2, `[*batch]`, whose gradient reaches `baseline` only; the next
        moments (None where none were given).

    Example:

    >>> def objective(sample, log_q):
    ...     return tf.reduce_sum(sample[..., 0], axis=-1)
    >>> baseline = tf.zeros([4])
    >>> result = tfc.estimators.nvil(
    ...     objective, tf.zeros([4, 2, 3]), baseline=baseline, moments=(0.0, 0.0), seed=0
    ... )
    >>> result.surrogate.shape, result.baseline_loss.shape
    (TensorShape([4]), TensorShape([4]))

    Reference: Mnih & Gregor (2014), Neural variational inference and learning in belief
    networks, Algorithm 1.
    """
    check_count(num_samples, "num_samples")
    values, log_q = _draw_and_evaluate(
        objective, logits, num_samples, class_mask, axis, batch_ndims, seed
    )
    return nvil_surrogate(values, log_q, baseline, moments, normalize, decay)


def vimco(
    objective: Callable,
    logits: TensorLike,
    num_samples: int = 5,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    batch_ndims: int = 1,
    seed: Seed = None,
) -> tf.Tensor:
    """VIMCO: the multi-sample bound with a baseline from the other samples.

    Forward: L_m = log((1/m) sum_i w_i) (Concrete, Eq. 8), with log w_i the objective's
    values.
    Backward: sum_i (L_m - L_-i) d log q(z_i) + dL_m, where L_-i is L_m with w_i replaced by
    the geometric mean of the other weights.
    Bias: none, for the gradient of E[L_m].

    Args:
        objective: as in `reinforce`; returns log w, usually log p(x, z) - log_q, whose
            gradient through `log_q` belongs to that of the bound: do not stop it.
        logits, class_mask, axis, batch_ndims, seed: as in `reinforce`.
        num_samples: m, at least 2; of one sample, use `nvil`.

    Returns:
        Tensor `[*batch]`, the bound.

    Example:

    >>> def objective(sample, log_q):
    ...     return tf.math.log(1 / 9) - log_q
    >>> bound = tfc.estimators.vimco(objective, tf.zeros([1, 2, 3]), num_samples=3, seed=0)
    >>> abs(float(bound[0])) < 1e-6
    True

    Reference: Mnih & Rezende (2016), Variational inference for Monte Carlo objectives.
    """
    check_count(num_samples, "num_samples", minimum=2)
    log_weights, log_q = _draw_and_evaluate(
        objective, logits, num_samples, class_mask, axis, batch_ndims, seed
    )
    return vimco_surrogate(log_weights, log_q)


def rloo(
    objective: Callable,
    logits: TensorLike,
    num_samples: int = 2,
    class_mask: TensorLike | None = None,
    axis: int = -1,
    batch_ndims: int = 1,
    seed: Seed = None,
) -> tf.Tensor:
    """RLOO: REINFORCE whose baseline is the mean over the other samples.

    Forward: the mean of f(z) over exact draws z from q.
    Backward: mean over i of (f(z_i) - mean_{j != i} f(z_j)) d log q(z_i) + df(z_i).
    Bias: none. Unchanged by a constant added to f.

    Args:
        objective, logits, class_mask, axis, batch_ndims, seed: as in `reinforce`.
        num_samples: Draws per example, at least 2.

    Returns:
        Tensor `[*batch]`.

    Example:

    >>> def objective(sample, log_q):
    ...     return tf.reduce_sum(sample[..., 0], axis=-1)
    >>> tfc.estimators.rloo(objective, tf.zeros([4, 2, 3]), num_samples=2, seed=0).shape
    TensorShape([4])

    Reference: Kool, van Hoof & Welling (2019), Buy 4 REINFORCE samples, get a baseline for
    free.
    """
    check_count(num_samples, "num_samples", minimum=2)
    values, log_q = _draw_and_evaluate(
        objective, logits, num_samples, class_mask, axis, batch_ndims, seed
    )
    return rloo_surrogate(values, log_q)
