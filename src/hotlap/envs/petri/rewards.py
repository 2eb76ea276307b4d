"""What a step of a net is worth. Every term can be set: `make_vec("petri", rewards={"scrap": -1000})`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any


@dataclass(frozen=True)
class Rewards:
    """Rates are per second of the interval that a step takes, and per token where tokens are counted."""

    time: float = -1.0
    """per second"""
    processing: float = 2.0
    """per second that a token is processed in a chamber"""
    chamber_overtime: float = -0.2
    """per second that a token stays in a chamber after it is processed"""
    transport_overtime: float = -3.0
    """per second that a token stays in a transport place after `transport_grace` seconds"""
    token: float = 10.0
    """per token that reaches a sink"""
    finish: float = 800.0
    """once all tokens are in sinks"""
    scrap: float = -500.0
    """once a token has stayed too long; this ends the episode"""
    deadlock: float = -500.0
    """once nothing can fire any more, where that ends the episode (`stop_when_dead`)"""
    timeout: float = -100.0
    """once the time is up"""
    waiting: float = -10.0
    """once `waiting_limit` seconds were spent with WAIT in a row"""
    transport_grace: int = 10
    waiting_limit: int = 300

    @classmethod
    def of(cls, given: "Rewards | Mapping[str, Any] | None") -> "Rewards":
        """The defaults, with some terms replaced."""
        if given is None:
            return cls()
        if isinstance(given, Rewards):
            return given
        terms = {term.name: term for term in fields(cls)}
        if not isinstance(given, Mapping) or not given.keys() <= terms.keys():
            raise ValueError(f"petri: rewards are given by name: {', '.join(terms)}; not {given!r}")
        for name, value in given.items():
            whole = isinstance(value, int) and 0 <= value <= 1_000_000
            fine = whole if terms[name].type is int else isinstance(value, int | float) and isfinite(value)
            if isinstance(value, bool) or not fine:
                raise ValueError(f"petri: reward term {name} cannot be {value!r}")
        return cls(**given)

    def rates(self) -> list[float]:
        return [float(getattr(self, name)) for name in RATES]


RATES = tuple(term.name for term in fields(Rewards) if term.type is float)  # what is multiplied or added
