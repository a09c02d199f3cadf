"""No step of the package leaves a GPU: op by op, from the kernels that TensorFlow registers."""

import ast
import pathlib

import pytest
import tensorflow as tf

import tfconcrete as tfc
from tests.devices.densities import BIJECTORS, DENSITIES, MOMENTS
from tests.devices.functions import FUNCTIONS, SHAPE, with_gradient
from tests.devices.models import MODELS, PIXELS, ROWS
from tests.devices.sampling_layers import LAYERS, MANY, MODES, OTHER_LAYERS, layer_input

report = tfc.diagnostics.device_report

ALL_FUNCTIONS = {**FUNCTIONS, **DENSITIES, **MOMENTS, **BIJECTORS}

# What stays in host memory, and why: {case: (op types, reason)}.
ACCEPTED = {
    "k_subset_covariance": (
        ("Cumprod",),
        "the gradient of a second derivative: of complex products, which no kernel accumulates",
    ),
}

# Public names that compute nothing on tensors, or are bases of what does.
NOT_COMPUTED = {
    "estimators": {"NVILResult"},
    "relaxations": {"SimplexTransform", "Truncation", "get_transform", "hypercube_corners"},
    "objectives": {"Likelihood", "base_rate_bias", "get_likelihood", "WholeNumbers"},
    "noise": {"NoiseTail", "noise_tail"},
    "distributions": set(),
    "bijectors": {"TransformBijector"},
    "layers": {
        "inference_mode",
        "preserved_state",
        "record_calls",
        "record_codes",
        "sampling_layers",
    },
    "models": {"Signature"},
}

QUICK = (
    "concrete",
    "categorical",
    "gapped",
    "Concrete.log_prob",
    "categorical_kl",
    "ConcreteSample hard",
    "GumbelRao",
    "SubsetSample masked",
    "VAE gapped",
)


def marked(names):
    """The quick ones, and the others for `make test-slow`."""
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in names]


def check(case, *arguments):
    found = report(*arguments)
    accepted = ACCEPTED.get(case, ((), ""))[0]
    left = [f for f in found.findings if f.op.split("(")[0] not in accepted]
    assert not left, f"{case}\n{found}"
    assert not accepted or found.findings, f"{case} is accepted for nothing"
    assert found.num_ops


@pytest.mark.parametrize("room", NOT_COMPUTED)
def test_every_public_name_is_in_the_tables(room):
    tables = ("functions", "densities", "sampling_layers", "models")
    used = set()
    for table in tables:
        tree = ast.parse(pathlib.Path(__file__).with_name(f"{table}.py").read_text())
        used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    public = set(getattr(tfc, room).__all__)
    assert public - used - NOT_COMPUTED[room] == set()
    assert NOT_COMPUTED[room] <= public - used


@pytest.mark.parametrize("name", marked(ALL_FUNCTIONS))
def test_functions(name):
    seed = tf.constant([1, 2])
    run = with_gradient(ALL_FUNCTIONS[name])
    check(name, lambda logits: run(logits, seed), tf.zeros(SHAPE))


@pytest.mark.parametrize("shape", [SHAPE, MANY], ids=["few", "many"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", marked(LAYERS))
def test_layers(name, mode, shape):
    layer = LAYERS[name](inference=mode, seed=0)
    check(name, layer, layer_input(name, tf.zeros(shape)))


@pytest.mark.parametrize("name", marked(OTHER_LAYERS))
def test_layers_of_other_inputs(name):
    check(name, *OTHER_LAYERS[name]())


@pytest.mark.parametrize("name", marked(MODELS))
def test_models(name):
    model = MODELS[name]()
    loss = "mse" if name == "Replicated" else None
    model.compile("adam", loss, jit_compile=False)
    x = tf.zeros([ROWS, PIXELS])
    check(name, model, (x, x))
