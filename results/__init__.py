"""Results: run records and the tables made from them (standard library and elmo.common only)."""

from elmo.common.errors import shorten_interrupts

shorten_interrupts()
