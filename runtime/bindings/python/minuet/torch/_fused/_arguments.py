"""Whether a fused module is called as its example was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def form_of(value: Any) -> Any:
    """Returns how arguments lie in lists and dicts: the forms of their items, and None for anything else."""
    if isinstance(value, Mapping):
        return {key: form_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(form_of(item) for item in value)
    return None


def require_form(form: Any, value: Any, name: str = "") -> None:
    """Raises TypeError where arguments have another form than those of the example, for which a network has no use.

    Args:
        form: of the example.
        value: the arguments.
        name: of what is looked at, "" for all arguments.
    """
    if form is None:
        return
    if isinstance(form, dict):
        if not isinstance(value, Mapping):
            raise TypeError(f"the argument {name} is {type(value).__name__}, and the example of fuse() had a dict")
        for key, item in form.items():
            if key not in value:
                raise TypeError(f"the argument {name}[{key!r}] is missing: give what the example of fuse() had")
            require_form(item, value[key], f"{name}[{key!r}]")
        if len(value) != len(form):
            added = next(key for key in value if key not in form)
            raise TypeError(
                f"the argument {name}[{added!r}] was not in the example of fuse(), and would be ignored: leave it out, "
                "or fuse the module with it"
            )
        return
    if not isinstance(value, list | tuple):
        raise TypeError(f"the argument {name} is {type(value).__name__}, and the example of fuse() had a list or tuple")
    if len(value) != len(form):
        what = f"the argument {name} has {len(value)} items" if name else f"{len(value)} arguments are given"
        raise TypeError(f"{what}, and the example of fuse() had {len(form)}: give what it had, or fuse the module anew")
    for number, (item, given) in enumerate(zip(form, value, strict=True)):
        require_form(item, given, f"{name}[{number}]")
