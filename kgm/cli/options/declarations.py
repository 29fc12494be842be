"""How a command declares its options: as plain data, for `kgm.cli.plain_line` and for typer.

They stand in annotations, as typer's own do: `state: Annotated[str | None, Option("--state", help="...")] = None`."""

from __future__ import annotations

from kgm.cli.options.group_names import check_group_names
from kgm.cli.options.run_options import RunOptions, run_options

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Iterable, Mapping
    from typing import Annotated, Any
else:

    class Annotated:
        """What `typing.Annotated` is to `kgm.cli.plain_line`: importing `typing` takes milliseconds."""

        __slots__ = ("__metadata__", "__origin__")

        def __class_getitem__(cls, parts: tuple[Any, ...]) -> Annotated:
            made = cls()
            made.__origin__, *metadata = parts
            made.__metadata__ = tuple(metadata)
            return made


__all__ = ["Annotated", "Argument", "Command", "Option"]


class Option:
    """An option. names: `-o`, `--output`; settings: as typer.Option takes them.

    plain: the values that need no callback; None when there is no callback."""

    __slots__ = ("names", "plain", "settings")

    def __init__(self, *names: str, plain: frozenset[str] | None = None, **settings: Any) -> None:
        self.names, self.plain, self.settings = names, plain, settings


class Argument:
    """An argument. settings: as typer.Argument takes them."""

    __slots__ = ("settings",)

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


class Command:
    """A command with options that others have too. typer calls it with the value of every parameter.

    function: takes its own parameters, and one that is annotated `RunOptions`. added: {parameter: (annotation,
    default)}."""

    def __init__(self, function: Callable[..., None], added: Mapping[str, tuple[Any, Any]]) -> None:
        self.function, self.added = function, added
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self.__qualname__ = function.__qualname__
        (self.taker,) = (name for name, each in function.__annotations__.items() if each in (RunOptions, "RunOptions"))

    def __call__(self, **values: Any) -> None:
        self.call(values, _sources(self.added))

    def call(self, values: dict[str, Any], sources: Mapping[str, str]) -> None:
        """Run it. values: of all parameters; sources: `flag` or `environment` for those that were given."""
        taken = {name: values.pop(name) for name in self.added}
        check_group_names(values)
        self.function(**values, **{self.taker: run_options(taken, sources)})

    @property
    def __signature__(self) -> inspect.Signature:
        signature = widened(self.function, self.taker, self.added)
        return signature.replace(
            parameters=[each.replace(annotation=_for_typer(each.annotation)) for each in signature.parameters.values()]
        )

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {name: each.annotation for name, each in self.__signature__.parameters.items()}


def widened(function: Callable[..., None], taker: str, added: Mapping[str, tuple[Any, Any]]) -> inspect.Signature:
    """The signature of a function, all by keyword, with {name: (annotation, default)} in place of `taker`."""
    import inspect

    signature = inspect.signature(function, eval_str=True)
    own = [each for name, each in signature.parameters.items() if name != taker]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    return signature.replace(parameters=[each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *more)])


def _for_typer(annotation: Any) -> Any:
    """The annotation with typer's own declaration."""
    import typing

    import typer

    (declared,) = getattr(annotation, "__metadata__", (None,))
    match declared:
        case Option():
            return typing.Annotated[annotation.__origin__, typer.Option(*declared.names, **declared.settings)]
        case Argument():
            return typing.Annotated[annotation.__origin__, typer.Argument(**declared.settings)]
        case _:
            return annotation


def _sources(names: Iterable[str]) -> dict[str, str]:
    """`flag` or `environment` for each parameter of the running command that was given."""
    import click
    from click.core import ParameterSource

    kinds = {ParameterSource.COMMANDLINE: "flag", ParameterSource.ENVIRONMENT: "environment"}
    context = click.get_current_context()
    sources = ((name, context.get_parameter_source(name)) for name in names)
    return {name: kinds[source] for name, source in sources if source in kinds}
