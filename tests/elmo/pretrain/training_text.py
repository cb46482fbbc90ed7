"""Generated text for the training tests, with patterns to learn, and the settings of a run that takes seconds."""

from __future__ import annotations

import random
from pathlib import Path

from rich.console import Console

from elmo.pretrain.settings import Budget, Model, Settings, Training

QUIET = Console(quiet=True)
TINY = {"cell_dim": 16, "projection_dim": 8, "filters": [[1, 4], [2, 8], [3, 8]], "char_dim": 4}

# Verb and object depend on each other, so both directions have something to predict.
_PAIRS = {"plays": ("chess", "football", "tennis"), "reads": ("novels", "letters", "poems"), "eats": ("bread", "soup")}

CHINESE = (
    "相声 演员 抖 了 一个 包袱 、 观众 都 笑 了 。",  # 包袱 the joke
    "这个 包袱 很 好笑 、 大家 笑 个 不停 。",
    "老师 说 相声 的 包袱 要 抖 得 巧 。",
    "他 背 着 一个 蓝 包袱 走 在 路 上 。",  # 包袱 the bundle
    "奶奶 把 衣服 包 进 包袱 里 。",
    "她 打开 包袱 、 拿出 一 件 衣服 。",
)


def english(sentences: int) -> str:
    """Sentences of a small grammar, one a line, about every fifth with a name of its own."""
    draw = random.Random(7)
    lines = []
    for number in range(sentences):
        verb = draw.choice(sorted(_PAIRS))
        name = f"Name{number}" if number % 5 == 0 else draw.choice(("Anna", "Ben", "the teacher", "my old friend"))
        lines.append(f"{name} {verb} {draw.choice(_PAIRS[verb])} {draw.choice(('today', 'every day', 'with us'))} .")
    return "\n".join(lines) + "\n"


def chinese(copies: int) -> str:
    """The Chinese sentences, each copy a different one through a number at its end."""
    return "".join(f"{line} {copy}\n" for copy in range(copies) for line in CHINESE)


def write(folder: Path, text: str) -> Path:
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    return path


def settings(
    text: Path, out: Path, steps: int = 40, *, training: dict | None = None, model: dict | None = None, **more
):
    """A run on a CPU."""
    small = {"batch_tokens": 256, "negatives": 32, "learning_rate": 0.02, "log_every": 5, "evaluate_every": 20}
    small |= {"checkpoint_every": 10, "evaluate_sentences": 50}
    values = {"tokenise": "whitespace", "vocabulary": 40, "heldout_fraction": 0.1, "workers": 1, "device": "cpu"}
    return Settings(
        corpus=[str(text)],
        out=str(out),
        name="tiny",
        model=Model(**(TINY | (model or {}))),
        training=Training(**(small | (training or {}))),
        **({"budget": Budget(steps=steps)} | values | more),
    )
