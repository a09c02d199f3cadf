"""Every public name says what it takes and gives, in a form that can be evaluated."""

import inspect
import pathlib
import typing

import pytest

import tfconcrete as tfc

ROOMS = [getattr(tfc, name) for name in tfc.__all__ if inspect.ismodule(getattr(tfc, name))]


def _is_ours(function):
    return inspect.unwrap(function).__module__.startswith("tfconcrete.")


def public_callables():
    for room in ROOMS:
        for name in room.__all__:
            value = getattr(room, name)
            if inspect.isclass(value) and not issubclass(value, tuple):
                for method, function in vars(value).items():
                    if method == "__init__" or not method.startswith("_"):
                        function = getattr(function, "__func__", function)
                        function = function.fget if isinstance(function, property) else function
                        # (TFP copies inherited methods into each class.)
                        if inspect.isfunction(function) and _is_ours(function):
                            yield pytest.param(function, id=f"{room.__name__}.{name}.{method}")
            elif inspect.isfunction(value):
                yield pytest.param(value, id=f"{room.__name__}.{name}")


@pytest.mark.parametrize("function", public_callables())
def test_annotated(function):
    function = inspect.unwrap(function)
    signature = inspect.signature(function)
    named = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and parameter.name not in ("self", "cls")
    ]
    missing = [p.name for p in named if p.annotation is p.empty]
    assert not missing
    assert signature.return_annotation is not signature.empty
    typing.get_type_hints(function)


def test_the_package_says_that_it_is_typed():
    assert (pathlib.Path(tfc.__file__).parent / "py.typed").is_file()
