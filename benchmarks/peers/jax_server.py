"""JAX's side of the comparisons; `process.py` starts it."""

import functools

import jax
import jax.numpy as jnp
import optax
from serve import serve


def _inputs(shape):
    keys = jax.random.split(jax.random.key(0), 2)
    return [jax.random.normal(key, shape) for key in keys]


def _ready(run, *arguments):
    """A step that ends when its results are there."""
    return lambda: jax.block_until_ready(run(*arguments))


def _relaxed(logits, key, temperature=0.5):
    noise = jax.random.gumbel(key, logits.shape)
    return jax.nn.softmax((logits + noise) / temperature)


def _straight_through(logits, key):
    soft = _relaxed(logits, key)
    hard = jax.nn.one_hot(jnp.argmax(soft, -1), logits.shape[-1])
    return soft + jax.lax.stop_gradient(hard - soft)


def _gapped(logits, key, temperature=0.5, gap=1.0):
    """GST, Algorithm 1 of the paper, transcribed."""
    index = jax.random.categorical(key, logits)
    draw = jax.nn.one_hot(index, logits.shape[-1])
    fixed = jax.lax.stop_gradient(logits)
    top = jnp.max(fixed, -1, keepdims=True)
    m1 = (top - fixed) * draw
    m2 = jax.nn.relu(fixed + gap - top) * (1.0 - draw)
    soft = jax.nn.softmax((logits + m1 - m2) / temperature)
    return soft + jax.lax.stop_gradient(draw - soft)


_SAMPLES = {"relaxed": _relaxed, "stgs": _straight_through, "gst": _gapped}


def sample(shape, kind="relaxed"):
    """A sample, forward and backward."""
    logits, weight = _inputs(shape)

    def loss(logits, key):
        return jnp.sum(weight * _SAMPLES[kind](logits, key))

    return _ready(jax.jit(jax.grad(loss)), logits, jax.random.key(1))


def draw(shape):
    """A one-hot draw, forward alone."""
    logits, _ = _inputs(shape)

    @jax.jit
    def run(logits, key):
        return jax.nn.one_hot(jax.random.categorical(key, logits), shape[-1])

    return _ready(run, logits, jax.random.key(1))


def log_density(shape, temperature=0.5):
    """log of a Concrete sample and its log density, forward alone."""
    logits, _ = _inputs(shape)
    n = shape[-1]
    constant = jax.scipy.special.gammaln(float(n)) + (n - 1) * jnp.log(temperature)

    @jax.jit
    def run(logits, key):
        noise = jax.random.gumbel(key, logits.shape)
        y = jax.nn.log_softmax((logits + noise) / temperature)
        a = logits - temperature * y
        return y, constant + jnp.sum(a, -1) - n * jax.scipy.special.logsumexp(a, -1)

    return _ready(run, logits, jax.random.key(1))


def _dense(key, sizes):
    """Glorot weights and zero biases, as Keras has them."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.nn.initializers.glorot_uniform()(key, (m, n)), jnp.zeros(n))
        for key, m, n in zip(keys, sizes, sizes[1:], strict=False)
    ]


def _apply(layers, x, last):
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return last(x @ weight + bias)


def _vae(batch, estimator, steps):
    keys = jax.random.split(jax.random.key(0), 3)
    weights = (_dense(keys[0], [784, 512, 256, 300]), _dense(keys[1], [300, 256, 512, 784]))
    x = jax.random.uniform(keys[2], (steps, batch, 784))
    optimizer = optax.adam(1e-3)

    def loss(weights, x, key):
        logits = _apply(weights[0], x, jax.nn.relu).reshape(-1, 30, 10)
        z = _SAMPLES[estimator](logits, key).reshape(-1, 300)
        outputs = _apply(weights[1], z, lambda x: x)
        fit = jnp.sum(optax.sigmoid_binary_cross_entropy(outputs, x), -1)
        log_q = jax.nn.log_softmax(logits)
        kl = jnp.sum(jnp.exp(log_q) * (log_q + jnp.log(10.0)), (1, 2))
        return jnp.mean(fit + kl)

    def step(state, inputs):
        weights, moments = state
        value, gradients = jax.value_and_grad(loss)(weights, *inputs)
        updates, moments = optimizer.update(gradients, moments, weights)
        return (optax.apply_updates(weights, updates), moments), value

    return step, (weights, optimizer.init(weights)), x


def vae_scan(batch, estimator="stgs", steps=50):
    """`steps` training steps of the GST paper's VAE in one `lax.scan`."""
    step, state, x = _vae(batch, estimator, steps)
    keys = jax.random.split(jax.random.key(1), steps)

    @functools.partial(jax.jit, donate_argnums=0)
    def run(state):
        return jax.lax.scan(step, state, (x, keys))

    def again():
        nonlocal state
        state, values = jax.block_until_ready(run(state))
        return values

    return again


def vae_steps(batch, estimator="stgs", steps=50):
    """The same steps, one jitted call each."""
    step, state, x = _vae(batch, estimator, steps)
    keys = jax.random.split(jax.random.key(1), steps)
    run = jax.jit(step, donate_argnums=0)
    batches = [(x[i], keys[i]) for i in range(steps)]

    def again():
        nonlocal state
        for inputs in batches:
            state, value = run(state, inputs)
        return jax.block_until_ready(value)

    return again


serve(
    {
        "sample": sample,
        "draw": draw,
        "log_density": log_density,
        "vae_scan": vae_scan,
        "vae_steps": vae_steps,
    }
)
