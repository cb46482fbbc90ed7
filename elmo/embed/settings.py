"""The options of `python -m elmo.embed` that decide what it writes; its help reads them without torch."""

from dataclasses import dataclass

from elmo.tokeniser import Tokenise

# A batch has at most --batch-size sentences, and at most as many tokens as the cache embeds at once (or one sentence):
# memory grows with the tokens. A GPU needs many sentences in parallel to be busy.
BATCH_SIZE, BATCH_SIZE_ON_A_GPU = 64, 1024


@dataclass(frozen=True)
class EmbedSettings:
    """The options that decide the content of an output, with its text and its biLM; named as on the command line."""

    layers: str = "all"
    pool: str = "none"
    precision: str = "float32"
    state: str = "zero"
    tokenise: Tokenise = "whitespace"
    column: str | None = None
    batch_size: int | None = None

    @property
    def kept(self) -> str:
        """The precision of the output."""
        return "float32" if self.precision == "int8" else self.precision

    @property
    def products(self) -> str:
        """The precision of the biLM's products, for `load_bilm`."""
        return "int8" if self.precision == "int8" else "float32"
