"""Every example runs with --smoke, leaves the files it names, and fails in one line."""

import os
import pathlib
import re
import subprocess
import sys
import time

import matplotlib.image
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "keras_examples"
SCRIPTS = sorted(
    path.stem for path in FOLDER.glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
)
# Those that take seconds; any other example is among the slow tests.
QUICK = {"concrete_figures", "masked_choice"}
# What must be there even if the script forgot to say so.
FILES = {
    "concrete_figures": ["concrete_figure_2.png", "concrete_figure_3.png"],
    "discrete_bottleneck_classifier": ["discrete_bottleneck_classifier.keras"],
    "temperature_study": [
        "temperature_codes.png",
        "temperature_by_epoch.png",
        "temperature_pca.png",
        "temperature_values.png",
        "temperature_reconstructions.png",
        "annealing.png",
        "annealing_reconstructions.png",
        "temperature_study.md",
    ],
    "estimator_comparison": [
        "estimator_comparison.png",
        "estimator_comparison.csv",
        "estimator_comparison.md",
    ],
}


def test_examples_are_found():
    assert {"temperature_study", "estimator_comparison", "masked_choice"} <= set(SCRIPTS)
    assert set(FILES) <= set(SCRIPTS) and set(SCRIPTS) >= QUICK


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in SCRIPTS],
)
def test_smoke(name, example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    output = tmp_path / "output of a run"
    module = example(name)
    start = time.process_time()
    module.main(["--smoke", "--output", str(output)])
    # Under 40 s on two idle cores; what others do on the machine does not count.
    assert time.process_time() - start < 80
    printed = capsys.readouterr().out
    assert printed.strip()
    named = re.findall(re.escape(str(output)) + r"/[\w./-]*\w", printed)
    for path in [*map(pathlib.Path, named), *(output / file for file in FILES.get(name, ()))]:
        assert path.exists(), path
    for path in output.rglob("*"):
        if path.suffix == ".png":
            pixels = matplotlib.image.imread(path)[..., :3]
            assert pixels.std() > 0.01, f"{path} shows nothing"
        if path.suffix in (".md", ".csv", ".html", ".png", ".keras"):
            assert path.stat().st_size > 0, path
    if "wrote " in printed:
        assert named, "files were written, but their paths not printed"


@pytest.mark.parametrize(
    "command",
    [["-m", "keras_examples.masked_choice"], [str(FOLDER / "masked_choice.py")]],
)
@pytest.mark.slow
def test_as_a_module_and_as_a_script(command, tmp_path):
    """A script finds its siblings from any folder, whatever is installed."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "MPLBACKEND": "Agg"}
    if "-m" not in command:
        # As on a machine where only the package itself is installed.
        (tmp_path / "tfconcrete").symlink_to(FOLDER.parent / "tfconcrete")
        environment["PYTHONPATH"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, *command, "--smoke", "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def exits_with_one_line(module, arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        module.main(arguments)
    assert exit_.value.code == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ") and "Traceback" not in line
    return line


@pytest.mark.parametrize("name", SCRIPTS)
def test_errors_are_one_line(name, example, tmp_path, capsys):
    module = example(name)
    output = ["--output", str(tmp_path)]
    for bad, complaint in (
        (["--epochs", "-1"], "-1"),
        (["--epochs", "many"], "many"),
        (["--data-dir", str(tmp_path / "nowhere")], "nowhere"),
        (["--seed", "x"], "x"),
        (["--seed", "-1"], "-1"),
        (["--no-such-option"], "--no-such-option"),
    ):
        assert complaint in exits_with_one_line(module, [*bad, *output], capsys)
    occupied = tmp_path / "file"
    occupied.write_text("")
    line = exits_with_one_line(module, ["--output", str(occupied / "folder")], capsys)
    assert "--output" in line


@pytest.mark.parametrize("name", SCRIPTS)
def test_help(name, example, capsys):
    with pytest.raises(SystemExit) as exit_:
        example(name).main(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    for option in ("--output", "--seed", "--smoke"):
        assert option in text
    title = example(name).__doc__.strip().splitlines()[0]
    assert title.split()[0] in text and title.endswith(".")


@pytest.mark.parametrize(
    "name, arguments, complaint",
    [
        ("temperature_study", ["--temperatures", "0.5", "0"], "positive"),
        ("temperature_study", ["--temperatures", "inf"], "positive"),
        ("estimator_comparison", ["--estimators", "magic"], "gst-1.0"),
        ("estimator_comparison", ["--temperatures", "-1"], "positive"),
        ("estimator_comparison", ["--table", "5"], "'5'"),
        ("estimator_comparison", ["--latents", "3x3"], "30x10"),
        ("estimator_comparison", ["--seeds", "0"], "--seeds"),
        ("estimator_comparison", ["--draws", "1"], "--draws"),
    ],
)
def test_bad_values(name, arguments, complaint, example, tmp_path, capsys):
    line = exits_with_one_line(example(name), [*arguments, "--output", str(tmp_path)], capsys)
    assert complaint in line


@pytest.mark.slow
def test_a_folder_without_data(example, tmp_path, capsys):
    """The folder is there, the data set is not: one line says which."""
    pytest.importorskip("tensorflow_datasets")
    arguments = ["--data-dir", str(tmp_path), "--output", str(tmp_path / "output")]
    line = exits_with_one_line(example("temperature_study"), arguments, capsys)
    assert "mnist" in line and str(tmp_path) in line
