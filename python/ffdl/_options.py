"""Options that are passed on to a compiled function."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any


def call_with(
    doing: str,
    function: Callable[..., Any],
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    others_names: Mapping[str, str] | None = None,
) -> Any:
    """Returns ``function(**given, **options)``. If an option does not exist, an error names it.

    Without this function, pybind11's error would print all arguments, including whole tensors.
    others_names: maps option names of another library to the advice in the error.
    """
    try:
        return function(**given, **options)
    except TypeError as error:
        signature, _, shown = str(error).partition("\nInvoked with")
        if not shown:  # another error, which needs no help
            raise
        known = re.findall(r"(\w+): ", signature)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            instead = (others_names or {}).get(name) or (
                f"use '{near[0]}'" if near else "leave it out")
            raise TypeError(f"{doing}: there is no option '{name}'; {instead}")
    raise TypeError(f"{doing}: an option has a wrong type. {signature}")
