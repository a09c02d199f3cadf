"""Plots draw what they are given, into the axes they are given, and refuse wrong shapes."""

import dataclasses

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tfconcrete import plots
from tfconcrete.diagnostics import NumericReport

RNG = np.random.default_rng(0)
POINTS = RNG.dirichlet([1, 1, 1], 300)
IMAGES = RNG.random([12, 8, 8])
REPORT = NumericReport("Sample", 3, 0.5, "float16", 10, 0.1, None, None, 0.9, 0.5, None, None, ())

CALLS = {
    "simplex_density": lambda ax: plots.simplex_density(POINTS, POINTS[:, 0], ax),
    "simplex_masses": lambda ax: plots.simplex_masses([2, 0.5, 1], ax),
    "simplex_points": lambda ax: plots.simplex_points(POINTS, ax),
    "image_grid": lambda ax: plots.image_grid(IMAGES, columns=4, ax=ax),
    "reconstructions": lambda ax: plots.reconstructions(IMAGES, IMAGES, ax),
    "code_grid": lambda ax: plots.code_grid(IMAGES.reshape(3, 4, 8, 8), ax),
    "curves": lambda ax: plots.curves({"a": [1, 2], "b": ([0, 5], [2, 1])}, ax),
    "gradient_variance": lambda ax: plots.gradient_variance({"a": [1.0, 0.1]}, ax),
    "category_usage": lambda ax: plots.category_usage([[0.5, 0.5, 0.0]], ax),
    "distances": lambda ax: plots.distances({"a": RNG.random(50)}, ax, mark=0.2),
    "class_scatter": lambda ax: plots.class_scatter(POINTS[:, :2], np.arange(300) % 10, ax),
    "numeric_reports": lambda ax: plots.numeric_reports([REPORT, REPORT], ax),
    "binary_tree": lambda ax: plots.binary_tree(["[MAX", "1", "]"], [(0, 2), (0, 3)], ax),
    "binary_relaxation": lambda ax: plots.binary_relaxation(
        [-1, 0, 1],
        [0.2, 0.5, 0.2],
        [0.2, 0.5, 0.8],
        [1, 1, 1],
        [0, 0.5, 1],
        samples=RNG.random(50),
        ax=ax,
    ),
}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_every_plot_is_here():
    assert set(CALLS) == set(plots.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_draws_into_given_axes_or_a_new_figure(name):
    figure, ax = plt.subplots()
    assert CALLS[name](ax) is figure
    assert ax.has_data() or ax.patches or ax.images
    fresh = CALLS[name](None)
    assert fresh is not figure
    fresh.canvas.draw()
    assert np.asarray(fresh.canvas.buffer_rgba())[..., :3].min() < 200


def test_reconstructions_stand_below_their_originals():
    figure = plots.reconstructions(np.zeros([3, 4, 4]), np.ones([3, 4, 4]))
    canvas = figure.axes[0].images[0].get_array()
    assert canvas.shape == (9, 14)
    assert np.all(canvas[:4, :4] == 0) and np.all(canvas[5:, :4] == 1)


def test_code_grid_puts_the_first_code_on_rows():
    images = np.zeros([2, 3, 4, 4])
    images[1, 2] = 1.0
    canvas = plots.code_grid(images).axes[0].images[0].get_array()
    assert np.all(canvas[5:, 10:] == 1) and np.all(canvas[:4, :4] == 0)


def test_dead_classes_are_marked():
    ax = plots.category_usage([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]).axes[0]
    x, y = ax.lines[0].get_data()
    assert set(zip(x.tolist(), y.tolist(), strict=True)) == {(2, 0), (0, 1), (2, 1)}


def test_class_scatter_keeps_classes_apart():
    points = np.array([[0.0, 1.0], [2.0, 3.0], [0.2, 1.2], [0.4, 1.0]])
    ax = plots.class_scatter(points, np.array([7, 3, 7, 7])).axes[0]
    assert [text.get_text() for text in ax.texts] == ["3", "7"]
    np.testing.assert_allclose(ax.collections[0].get_offsets(), [[2.0, 3.0]])
    np.testing.assert_allclose(ax.texts[1].xy, [0.2, 1.0])


def test_numeric_reports_show_what_is_not_finite():
    clean = dataclasses.replace(REPORT, non_finite_samples=0.0, zero_gradients=0.25)
    ax = plots.numeric_reports([REPORT, clean]).axes[0]
    shown = {(*text.get_position(), text.get_text(), text.get_color()) for text in ax.texts}
    assert (0, 0, "0.1", "#cb181d") in shown and (0, 1, "0", "black") in shown
    # The report without gradients has an empty cell there.
    assert {y for x, y, *_ in shown if x == 3} == {1}
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["Sample, 3 classes at temperature 0.5 in float16"] * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: plots.simplex_density(POINTS[:, :2], POINTS[:, 0]),
        lambda: plots.simplex_density(POINTS, POINTS[:10, 0]),
        lambda: plots.image_grid(np.zeros([3, 4])),
        lambda: plots.reconstructions(IMAGES, IMAGES[:3]),
        lambda: plots.code_grid(IMAGES),
        lambda: plots.curves({}),
        lambda: plots.numeric_reports([]),
        lambda: plots.numeric_reports([0.5]),
        lambda: plots.class_scatter(IMAGES[0], np.zeros(8)),
        lambda: plots.class_scatter(POINTS[:, :2], np.zeros(8)),
    ],
)
def test_wrong_shapes(call):
    with pytest.raises(ValueError, match="Invalid value received for argument"):
        call()
