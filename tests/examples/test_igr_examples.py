"""The networks, data and numbers of the IGR and structured-prediction examples."""

import keras
import numpy as np
import pytest
import tensorflow as tf


@pytest.mark.parametrize(
    "architecture, image_shape",
    [("dense", (28, 28)), ("conv1", (32, 32)), ("conv1", (32, 32, 3)), ("conv2", (64, 64, 3))],
)
def test_networks_have_the_shapes_of_their_images(architecture, image_shape, example):
    networks = example("igr_architectures")
    heads = [[30, 9], [30, 9], [10]]
    encoder = networks.build_encoder(architecture, image_shape, heads)
    outputs = encoder(np.zeros([2, *image_shape], "float32"))
    assert [tuple(x.shape[1:]) for x in outputs] == [tuple(shape) for shape in heads]
    decoder = networks.build_decoder(architecture, image_shape, [[30, 10], [10]])
    decoded = decoder([np.zeros([2, 30, 10], "float32"), np.zeros([2, 10], "float32")])
    assert tuple(decoded.shape[1:]) == image_shape


def test_convolutions_are_those_of_appendix_d(example):
    networks = example("igr_architectures")
    encoder = networks.build_encoder("conv2", (64, 64, 3), [[10]])
    decoder = networks.build_decoder("conv2", (64, 64, 3), [[10]])
    down = [x for x in encoder.layers if isinstance(x, keras.layers.Conv2D)]
    up = [x for x in decoder.layers if isinstance(x, keras.layers.Conv2DTranspose)]
    dense = [x.units for x in decoder.layers if isinstance(x, keras.layers.Dense)]
    assert [x.filters for x in down] == [32, 64, 64, 64]
    assert [x.filters for x in up] == [64, 32, 32, 3] and dense == [256, 1024]
    for layer in down + up:
        assert layer.kernel_size == (4, 4) and layer.strides == (2, 2)
    assert up[-1].activation is keras.activations.linear


def test_images_get_a_border_or_a_clear_line(example, capsys):
    networks = example("igr_architectures")
    images = np.ones([2, 28, 28], "float32")
    padded = networks.fit_images(images, "conv1")
    assert padded.shape == (2, 32, 32) and padded.sum() == images.sum()
    assert networks.fit_images(images, "dense") is images
    with pytest.raises(SystemExit) as exit_:
        networks.fit_images(np.ones([2, 64, 64, 3]), "conv1")
    assert exit_.value.code == 2 and "32 x 32" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["igr", "igr_sb", "igr_planar", "concrete"])
def test_latents_give_points_of_the_simplex(name, example):
    networks = example("igr_architectures")
    latent = networks.build_latent(name, 0.3, 10, seed=0)
    heads = [tf.zeros([5, *shape]) for shape in networks.head_shapes(name, 3, 10)]
    points = networks.on_simplex(latent, heads if len(heads) > 1 else heads[0]).numpy()
    assert points.shape == (5, 3, 10)
    np.testing.assert_allclose(points.sum(-1), 1.0, rtol=1e-5)


def test_generated_faces(example):
    faces = example("datasets").generated_faces(6, seed=1)
    assert faces.shape == (6, 64, 64, 3) and faces.dtype == np.uint8
    assert len({face.tobytes() for face in faces}) == 6
    np.testing.assert_array_equal(faces, example("datasets").generated_faces(6, seed=1))


def test_faces_from_tfds(example, tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.testing.mock_data(num_examples=5):
        train, test = example("datasets").load_faces(data_dir=tmp_path, limit=3)
    assert train.shape == test.shape == (3, 64, 64, 3) and train.dtype == np.uint8


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, arguments, files",
    [
        (
            "igr_vae",
            ["--dataset", "celeb_a", "--select", "vertices", "--latents", "igr", "concrete"],
            ["igr_vae_images.png", "igr_vae.md"],
        ),
        (
            "igr_vae",
            ["--architecture", "conv1", "--select", "validation", "--latents", "igr_sb"],
            ["igr_vae_curves.png", "igr_vae_distances.png"],
        ),
        ("joint_vae", ["--dataset", "celeb_a", "--latents", "igr"], ["joint_vae_igr.png"]),
    ],
)
def test_other_data_and_architectures(name, arguments, files, example, tmp_path):
    example(name).main([*arguments, "--smoke", "--output", str(tmp_path)])
    for file in files:
        assert (tmp_path / file).stat().st_size > 0


def complaint(module, arguments, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        module.main([*arguments, "--output", str(tmp_path)])
    assert exit_.value.code == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("igr_vae", ["--dataset", "cifar"], "fashion_mnist"),
        ("igr_vae", ["--dataset", "fashion_mnist"], "--data-dir"),
        ("igr_vae", ["--architecture", "conv3"], "conv2"),
        ("igr_vae", ["--latents", "magic"], "igr_planar"),
        ("igr_vae", ["--grid", "0.5", "-1"], "--grid"),
        ("igr_vae", ["--delta", "0"], "--delta"),
        ("igr_vae", ["--flows", "0"], "--flows"),
        ("igr_vae", ["--images", "3"], "--images"),
        ("igr_vae", ["--dataset", "celeb_a", "--architecture", "conv1", "--smoke"], "32 x 32"),
        ("joint_vae", ["--gamma", "-3"], "--gamma"),
        ("joint_vae", ["--capacity-steps", "0"], "--capacity-steps"),
        ("joint_vae", ["--latents", "igr_planar"], "igr_sb"),
        ("structured_prediction", ["--classes", "3"], "powers of two"),
        ("structured_prediction", ["--classes", "8", "--width", "10"], "--width"),
        ("structured_prediction", ["--num-samples", "0"], "--num-samples"),
        ("structured_prediction", ["--temperatures", "nan"], "--temperatures"),
    ],
)
def test_bad_values(name, arguments, words, example, tmp_path, capsys):
    assert words in complaint(example(name), arguments, tmp_path, capsys)


def test_vertex_temperatures_are_those_of_the_definition(example, tmp_path):
    """75% within 0.2: Concrete near 0.16 for ten uniform classes; IGR's is about half of it."""
    igr_vae = example("igr_vae")
    settings = igr_vae.parse(["--output", str(tmp_path), "--delta", "1", "--smoke"])
    experiment = igr_vae.Experiment(settings)
    found = {name: experiment.vertex_temperature(name) for name in ("igr", "concrete")}
    assert found["concrete"] == pytest.approx(0.16, abs=0.006)
    assert found["igr"] == pytest.approx(0.085, abs=0.006)


@pytest.mark.parametrize("relaxation, classes", [("concrete", 2), ("concrete", 8), ("igr", 4)])
def test_units_fill_the_hypercube(relaxation, classes, example):
    """n-ary layers of 12 units: every state has 12 coordinates, each -1 or 1 when discrete."""
    structured = example("structured_prediction")
    units = structured.Units(relaxation, classes, 0.5)
    inputs, values = units.sample_input(12)
    context = keras.Input([5])
    parameters = keras.Model(context, units.parameters(context, 12))
    sample = units.latent(seed=0)(parameters(np.ones([3, 5], "float32")))
    corners = keras.Model(inputs, keras.layers.Identity()(values))(sample).numpy()
    assert corners.shape == (3, 12) and np.all(np.abs(corners) == 1.0)


def test_structured_bound_by_hand(example):
    """One layer of two binary units: L_1 is the mean over four corners."""
    structured = example("structured_prediction")
    keras.utils.set_random_seed(0)
    units = structured.Units("concrete", 2, 0.5)
    model = structured.build_model(units, 2, 1, np.zeros(structured.PIXELS, "float32"), 1, 0)
    rng = np.random.default_rng(0)
    upper, lower = (rng.integers(0, 2, [structured.PIXELS]).astype("float32") for _ in range(2))
    logits = model.encoder[0](upper[None]).numpy()[0]
    expected, square = 0.0, 0.0
    for corner in ([-1, -1], [-1, 1], [1, -1], [1, 1]):
        mass = np.prod(1 / (1 + np.exp(-np.array(corner) * logits)))
        out = model.decoder(np.array([corner], "float32")).numpy()[0]
        value = np.sum(np.logaddexp(0, out) - lower * out)
        expected += mass * value
        square += mass * value**2
    many = 4_000
    model.compile("adam")
    losses = model.evaluate(
        np.tile(upper, [many, 1]),
        np.tile(lower, [many, 1]),
        batch_size=many,
        verbose=0,
        return_dict=True,
    )
    error = np.sqrt((square - expected**2) / many)
    assert abs(losses["loss"] - expected) < 5 * error + 1e-3


def test_majority_share(example):
    codes = np.array([0, 0, 0, 4, 4])
    labels = np.array([7, 7, 1, 2, 3])
    assert example("joint_vae").majority_share(codes, labels) == pytest.approx(3 / 5)


def test_traversals_vary_what_they_say(example):
    """Rows of the left grid are classes, rows of the right one dimensions, columns values."""
    joint_vae = example("joint_vae")
    protocol = joint_vae.Protocol("dense", "bernoulli", 30.0, 5.0, 5.0, 10, continuous_dims=3)
    model = joint_vae.build_model("igr", 0.1, (8, 8), protocol, 10, seed=0)
    images = np.random.default_rng(0).random([20, 8, 8]).astype("float32")
    (by_class, classes), (by_dimension, dimensions, nats) = joint_vae.traverse(model, images)
    assert by_class.shape == (len(classes), 10, 8, 8) and by_dimension.shape == (3, 10, 8, 8)
    assert list(nats) == sorted(nats, reverse=True)
    point = np.zeros([1, 3], "float32")
    point[0, dimensions[0]] = 2.0
    decoded = model.decode(np.array([[classes[0]]]), point)[0]
    np.testing.assert_allclose(by_class[0, -1], decoded, rtol=1e-5)
    loc = joint_vae.continuous_code(model, images[:1])[0]
    loc[0, dimensions[1]] = -2.0
    code = model.encode(images[:1])
    np.testing.assert_allclose(by_dimension[1, 0], model.decode(code, loc)[0], rtol=1e-5)


@pytest.mark.parametrize("name", ["concrete", "igr"])
def test_vanishing_entries_of_a_samples_jacobian(example, name):
    """Counted per variable; the whole Jacobian is block diagonal and holds the same entries."""
    architectures, record = example("igr_architectures"), example("reproduction.igr")
    heads = architectures.head_shapes(name, 4, 10)
    inputs = keras.Input([3])
    outputs = [
        keras.layers.Reshape(shape)(
            keras.layers.Dense(int(np.prod(shape)), bias_initializer="normal")(inputs)
        )
        for shape in heads
    ]

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder = keras.Model(inputs, outputs if len(outputs) > 1 else outputs[0])
            self.latent = architectures.build_latent(name, 0.1, 10, seed=1)

    model, images = Model(), np.random.default_rng(0).normal(size=[50, 3]).astype("float32")
    share = record.vanishing_jacobian(model, images)
    with tf.GradientTape() as tape:
        parameters = model.encoder(images)
        first = tf.exp(parameters) if name == "concrete" else parameters[0]
        tape.watch(first)
        inner = tf.math.log(first) if name == "concrete" else [first, parameters[1]]
        sample = architectures.on_simplex(model.latent, inner)
    blocks = np.einsum("bvkvj->bvkj", tape.batch_jacobian(sample, first).numpy())
    expected = np.mean(blocks == 0.0, axis=(2, 3)).ravel()
    # Other noise: each variable of each image is a draw, here and there.
    assert 0 < expected.mean() < 0.5
    assert abs(share - expected.mean()) < 5 * np.sqrt(2 / expected.size) * expected.std()
