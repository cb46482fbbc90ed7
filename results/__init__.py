"""Results: run records, and the tables, figures and report made from them."""

from elmo.common.errors import shorten_interrupts

shorten_interrupts()
