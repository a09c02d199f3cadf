"""The report's figures from finished cells, drawn by `temperature_study`."""

from keras_examples import temperature_study
from keras_examples.reproduction.cells import unpacked


def _run(row, result):
    """The `temperature_study.Run` that a cell was made from, as far as it was kept."""
    snapshots = {
        int(epoch): (unpacked(images), _latents(result, epoch))
        for epoch, images in result.get("snapshots", {}).items()
    }
    evaluation = {name: result[name] for name in ("squared_error",)} | {"loss": result["discrete"]}
    return temperature_study.Run(
        row.label,
        result["history"],
        evaluation,
        snapshots,
        unpacked(result["reconstructions"]),
        result["codes"],
        result["within"],
        result["between"],
    )


def _latents(result, epoch):
    latents = result["latents"].get(epoch)
    return None if latents is None else unpacked(latents)


def _data(found):
    """The test digits whose reconstructions were kept."""
    return next(unpacked(results[0]["data"]) for results in found.values() if results)


def _finished(found):
    return {row: _run(row, results[0]) for row, results in found.items() if results}


def temperature_figures(found):
    """All codes, reconstructions by epoch, latents, losses and distances by temperature."""
    figures = {}
    for row, results in found.items():
        if results and "code_images" in results[0]:
            figures |= temperature_study.draw_baseline(
                _run(row, results[0]),
                unpacked(results[0]["code_images"]),
                _data(found),
                results[0]["labels"],
            )
    finished = sorted(_finished(found).items(), key=lambda pair: pair[0].options["initial"])
    runs = {row.options["initial"]: run for row, run in finished}
    if len(runs) > 1:
        figures |= temperature_study.draw_temperatures(runs, _data(found))
    return {name.removeprefix("temperature_"): figure for name, figure in figures.items()}


def annealing_figures(found):
    """Losses and temperatures by epoch against the fixed 2/3, and reconstructions."""
    baseline, *others = _finished(found).values() or [None]
    if not others:
        return {}
    figures = temperature_study.draw_annealing(baseline, others, _data(found))
    return {name.removeprefix("annealing_"): figure for name, figure in figures.items()}
