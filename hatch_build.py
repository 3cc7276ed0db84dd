"""Refuses to build a wheel: it would hold neither kernels nor scope, which need the MPI library of
their checkout. An editable install, which leaves everything where it is, is welcome."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Checkout(BuildHookInterface):
    """Called by hatchling before it builds."""

    def initialize(self, version: str, build_data: dict) -> None:
        if version != "editable":
            raise SystemExit(
                "Ringside works from its checkout only, as its kernels are built there with the "
                "MPI library that is there. Run `make lab` in it, or `pip install --editable .`"
            )
