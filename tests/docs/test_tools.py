"""The tools behind the site: API pages, docstrings, gallery, the explorer's figures."""

import importlib.util
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tfconcrete as tfc

ROOT = pathlib.Path(__file__).parents[2]


def tool(name):
    """A module of docs/tools, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


explorer = tool("explorer")


def test_the_api_pages_have_every_public_name():
    api = tool("api")
    assert set(api.rooms()) >= {"layers", "models", "export", "plots", "variables"}
    for room in api.rooms():
        text = api.room_page(room, lambda docstring: docstring)
        for name in getattr(tfc, room).__all__:
            anchors = (f"::: tfconcrete.{room}.{name}\n", f"#tfconcrete.{room}.{name} ")
            assert any(anchor in text for anchor in anchors), f"{room}.{name}"


def test_source_links_lead_to_the_definition():
    api = tool("api")
    path, name, line = api.definitions(ROOT / "tfconcrete" / "layers")["ConcreteSample"]
    assert path.read_text().splitlines()[line - 1].startswith(f"class {name}(")


def test_keras_sections_become_markdown():
    docstrings = pytest.importorskip("griffe") and tool("docstrings")
    text = "Title.\n\nCall arguments:\n    x: tensor\n        of floats.\n    y: more.\n"
    text += "\n>>> 1\n1\n"
    assert docstrings.as_markdown(text) == (
        "Title.\n\n**Call arguments**\n\n- **x**: tensor\n      of floats.\n- **y**: more.\n\n\n"
        "```pycon\n>>> 1\n1\n```"
    )


def test_every_example_is_in_the_gallery():
    gallery = tool("gallery")
    scripts = {
        path.stem
        for path in (ROOT / "keras_examples").glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text()
    }
    listed = [*gallery.ENTRIES, *gallery.others()]
    assert {entry.example for entry in listed} == scripts
    for entry in gallery.ENTRIES:
        if entry.picture:
            assert gallery.location(entry).stat().st_size < 600_000, entry.picture
    brought = []
    page = gallery.page(lambda name, path: brought.append(name))
    assert all(gallery.command(entry) in page for entry in listed)
    assert len(brought) == sum(entry.picture is not None for entry in gallery.ENTRIES)


@pytest.fixture(scope="module")
def cells():
    names = ["Concrete (soft)", "Straight-through Gumbel-Softmax", "IGR (soft)"]
    found = explorer.figures(4_000, 20, (3,), (0.05, 0.5, 5.0), names)
    return {name: found["cells"][f"{name}|3"] for name in names}


def test_the_exact_gradient_is_the_sum_over_states():
    problem = explorer.Problem(4)
    values = problem.objective(tf.eye(4, dtype=tf.float64)).numpy()
    expected = problem.probs * (values - problem.mean)
    gradient = problem.exact_gradient(problem.logits, tf.nn.softmax)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9)


def test_soft_samples_leave_the_vertices_and_the_gap_grows(cells):
    for name in ("Concrete (soft)", "IGR (soft)"):
        cold, middle, warm = cells[name]
        assert cold["near"] > 0.9 > middle["near"] > warm["near"]
        assert abs(cold["gap"]) < 5 * cold["gap_error"] + 0.05 < abs(warm["gap"])
        assert cold["variance"] > middle["variance"] > warm["variance"]


def test_straight_through_draws_are_exact(cells):
    for cell in cells["Straight-through Gumbel-Softmax"]:
        assert cell["near"] == 1.0
        assert abs(cell["gap"]) < 5 * cell["gap_error"]


def test_the_corners_are_a_regular_polygon():
    corners = explorer.polygon(5)
    sides = np.linalg.norm(corners - np.roll(corners, 1, 0), axis=-1)
    np.testing.assert_allclose(sides, sides[0])
    np.testing.assert_allclose(corners.sum(0), 0.0, atol=1e-12)
