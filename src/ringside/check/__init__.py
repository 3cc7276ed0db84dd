"""The checks of the exercises: `check("01-token")` in a notebook, `ringside grade` for a folder.

A function is judged by what it did on real ranks, each trial in processes of its own: that it
ends, also where no buffer helps, that its values are right, that it completes what it starts,
leaves nothing over, and what the exercise asks for besides.
"""

__all__ = ["CheckFailed", "check"]


def __getattr__(name: str):
    # The ranks of a trial import this package too, and must start quickly.
    if name in __all__:
        from ringside.check import verdict

        return getattr(verdict, name)
    raise AttributeError(f"module 'ringside.check' has no attribute {name!r}")
