"""What property tests draw: logits of every kind, masks that broadcast, temperatures, axes."""

import dataclasses

import hypothesis
import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

DTYPES = ("float16", "bfloat16", "float32", "float64")
# Around 64 a draw changes its way.
NUM_CLASSES = (2, 3, 5, 10, 62, 63, 64, 65, 66, 130)
SCALES = (0.0, 1e-6, 1.0, 30.0, 1e4, 1e9, 1e30, 3e38)
HALF = ("float16", "bfloat16")


def settings(max_examples):
    """The same examples everywhere: nothing depends on the machine's speed or a database."""
    return hypothesis.settings(
        max_examples=max_examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
    )


@dataclasses.dataclass
class Case:
    """One example. `logits` are already rounded to `dtype`, as float64."""

    logits: np.ndarray
    dtype: str
    axis: int | None
    mask: np.ndarray | None
    temperature: np.ndarray
    seed: int

    def __repr__(self):
        mask = None if self.mask is None else self.mask.tolist()
        return (
            f"Case(logits={self.logits.tolist()}, dtype={self.dtype!r}, axis={self.axis}, "
            f"mask={mask}, temperature={self.temperature.tolist()}, seed={self.seed})"
        )

    @property
    def kept(self):
        """The mask at the shape of the logits."""
        mask = True if self.mask is None else self.mask
        return np.broadcast_to(mask, self.logits.shape)

    def tensors(self):
        """`(logits, temperature, mask)` as tensors."""
        mask = None if self.mask is None else tf.constant(self.mask)
        temperature = tf.constant(self.temperature, tf.float32)
        return tf.cast(tf.constant(self.logits), self.dtype), temperature, mask


def _values(rng, shape, scale, specials, share):
    values = rng.normal(size=shape) * min(scale, 1e300)
    if specials:
        chosen = rng.choice(np.array(specials), size=shape)
        values = np.where(rng.random(shape) < share, chosen, values)
    return values


def _rounded(values, dtype):
    limit = 3e38 if dtype != "float64" else 1e300
    finite = np.isfinite(values)
    values = np.where(finite, np.clip(values, -limit, limit), values)
    return tf.cast(tf.cast(tf.constant(values), dtype), tf.float64).numpy()


def _broadcast_shape(draw, shape):
    """A shape that broadcasts to `shape`: some dimensions of size 1, some left out."""
    sizes = [size if draw(st.booleans()) else 1 for size in shape]
    return sizes[draw(st.integers(0, len(sizes))) :]


SPECIALS = (
    (),
    (),
    (np.nan,),
    (np.inf,),
    (-np.inf,),
    (np.inf, -np.inf),
    (3e38, -3e38),
    (0.0, -0.0),
    (np.nan, np.inf, -np.inf, 0.0),
)


@st.composite
def cases(draw, binary=False, min_rank=1):
    """Cases with classes along an axis, or element-wise ones with `binary`."""
    rank = draw(st.integers(0 if binary else min_rank, 5))
    shape = [draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 3)) for _ in range(rank)]
    axis = None
    if not binary:
        axis = draw(st.integers(-rank, rank - 1))
        shape[axis] = draw(st.sampled_from(NUM_CLASSES if rank < 4 else (2, 3, 64)))
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from(SCALES))
    share = draw(st.sampled_from((0.05, 0.5, 1.0)))
    logits = _values(rng, shape, scale, draw(st.sampled_from(SPECIALS)), share)
    mask = None
    if draw(st.booleans()):
        mask = rng.random(_broadcast_shape(draw, shape)) < draw(st.sampled_from((0.0, 0.3, 0.8)))
    temperature_shape = []
    if draw(st.integers(0, 2)) == 0:
        temperature_shape = _broadcast_shape(draw, shape)
        if axis is not None and len(temperature_shape) >= len(shape) - axis % rank:
            temperature_shape[axis % rank - rank] = 1
    exponent = draw(st.floats(-6.0, 6.0))
    spread = rng.uniform(-0.5, 0.5, size=temperature_shape)
    temperature = 10.0 ** np.clip(exponent + spread, -6.0, 6.0)
    return Case(
        _rounded(logits, dtype),
        dtype,
        axis,
        mask,
        np.asarray(temperature),
        draw(st.integers(-(2**63), 2**63 - 1)),
    )
