"""The training loop: stopping, steps, checkpoints and errors, on a model of one weight."""

import math
import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from elmo.common.errors import InputError
from elmo.common.progress import Reporter
from elmo.common.tensor_files import write_tensors
from tasks.training.trainer import (
    OPTIMIZERS,
    START_AGAIN,
    FitState,
    NonFiniteLoss,
    OutOfMemory,
    TaskModel,
    Trainer,
    TrainerConfig,
)
from tests.tasks.training.line_task import CPU, TRAIN, CountingHead, Lengths, Line, LineHead, fit


class TestStopping:
    @pytest.mark.parametrize(
        ("script", "patience", "epochs", "best"),
        [
            ([1, 2, 1.5, 1.9, 9], 2, 4, 2),
            ([1, 2, 1.5, 3, 2, 2.9], 2, 6, 4),
            ([1, 1, 1, 9], 2, 3, 1),  # as good is not better
            ([1, 0, 0, 0, 0, 0, 0, 5], None, 8, 8),
            ([0, 0, 0], 5, 3, 1),
            ([5, 4, 3], 1, 2, 1),
        ],
    )
    def test_epochs_and_patience(self, script, patience, epochs, best):
        state = fit(Line(script), patience=patience, epochs=len(script))
        assert (state.epoch, state.best_epoch) == (epochs, best)
        assert state.best_score == script[best - 1]
        assert state.best_values == {"score": script[best - 1]}
        assert [epoch["epoch"] for epoch in state.curve] == list(range(1, epochs + 1))
        assert [epoch["score"] for epoch in state.curve] == script[:epochs]

    def test_the_best_weights_are_restored(self):
        task = Line([1, 5, 3, 4])
        fit(task, epochs=4)
        assert len(set(task.seen)) == 4
        assert task.model.head.weight.item() == task.seen[1]

    @pytest.mark.parametrize(
        "settings",
        [
            {"epochs": 0},
            {"patience": 0},
            {"batch_size": 0},
            {"eval_batch_size": 0},
            {"batch_tokens": 0},
            {"lr": 0.0},
            {"lr": math.nan},
            {"optimizer": "sgd"},
            {"precision": "float16"},
            {"ema": 1.0},
            {"ema": 0.0},
            {"eps": 0.0},
            {"grad_value": 0.0},
        ],
    )
    def test_settings_out_of_range_are_errors(self, settings):
        with pytest.raises(InputError, match=rf"trainer\.{next(iter(settings))}: expected"):
            fit(Line(), **settings)


@pytest.mark.parametrize(("eps", "expected"), [(None, 1e-8), (1e-6, 1e-6)])  # TensorFlow's own is 1e-8
def test_the_first_step_of_adadelta(eps, expected):
    """Zeiler's rule with rho 0.95: from no history, sqrt(eps) / sqrt(0.05 g^2 + eps) * g."""
    task = Line([1])
    fit(task, epochs=1, lr=1.0, grad_norm=None, optimizer="adadelta", eps=eps)
    gradient = -6 * 14
    step = -(expected**0.5) / (0.05 * gradient**2 + expected) ** 0.5 * gradient
    assert task.model.head.weight.item() == pytest.approx(step)


class TestSteps:
    """With plain gradient descent every step can be worked out by hand."""

    @pytest.fixture(autouse=True)
    def _gradient_descent(self, monkeypatch):
        monkeypatch.setitem(OPTIMIZERS, "adam", torch.optim.SGD)

    def test_one_step_without_clipping(self):
        """d/dw sum (w n - 3 n)^2 at w = 0 is -6 (1 + 4 + 9)."""
        task = Line([1])
        state = fit(task, epochs=1, lr=0.01, grad_norm=None)
        assert task.model.head.weight.item() == pytest.approx(0.01 * 6 * 14)
        assert state.curve[0]["loss"] == pytest.approx(9 * 14)

    @pytest.mark.parametrize(("grad_norm", "moved"), [(5.0, 0.05), (1000.0, 0.84)])
    def test_clipping_bounds_the_step(self, grad_norm, moved):
        task = Line([1])
        fit(task, epochs=1, lr=0.01, grad_norm=grad_norm)
        assert task.model.head.weight.item() == pytest.approx(moved, rel=1e-4)

    @pytest.mark.parametrize(("grad_value", "moved"), [(1.0, 0.01), (1000.0, 0.84)])
    def test_gradients_are_cut_by_value(self, grad_value, moved):
        task = Line([1])
        fit(task, epochs=1, lr=0.01, grad_norm=None, grad_value=grad_value)
        assert task.model.head.weight.item() == pytest.approx(moved, rel=1e-4)

    def test_the_norm_is_that_of_features_and_head_together(self):
        class Scaled(Lengths):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(()))

            def forward(self, sentences):
                found = super().forward(sentences)
                return replace(found, input=found.input * self.scale)

        task = Line([1])
        task.model = TaskModel(Scaled(), LineHead())
        task.model.head.weight.data.fill_(1.0)
        fit(task, epochs=1, lr=1.0, grad_norm=0.5)
        moved = [parameter.item() - 1 for parameter in task.model.parameters()]
        assert min(map(abs, moved)) > 0.1
        assert math.hypot(*moved) == pytest.approx(0.5, rel=1e-4)

    def test_weight_decay(self):
        """At 3 the loss has no gradient, so that decay alone moves the weight."""
        task = Line([1])
        task.model.head.weight.data.fill_(3.0)
        fit(task, epochs=1, lr=0.1, weight_decay=0.5)
        assert task.model.head.weight.item() == pytest.approx(3 - 0.1 * 0.5 * 3)

    def test_average_and_best_weights_resume_from_a_checkpoint(self, tmp_path):
        whole, halves = Line([1, 4, 3, 2]), Line([1, 4, 3, 2])
        settings = {"lr": 0.001, "ema": 0.99}
        fit(whole, epochs=4, **settings)
        for epochs in (2, 4):
            halves.model = TaskModel(Lengths(), LineHead())  # as another process has it
            fit(halves, epochs=epochs, checkpoint=tmp_path / "checkpoint.pt", **settings)
        assert len(set(whole.seen)) == 4
        assert halves.seen == whole.seen
        assert halves.model.head.weight.item() == whole.seen[1]

    def test_buffers_of_the_best_epoch_are_restored_and_resume(self, tmp_path):
        """Such as the statistics of BatchNorm. One step an epoch, and the second epoch is the best."""
        for stops in ((3,), (1, 3), (2, 3)):
            task = Line([1, 5, 3])
            for epochs in stops:
                task.model = TaskModel(Lengths(), CountingHead())  # as another process has it
                fit(task, epochs=epochs, checkpoint=tmp_path / f"{stops}.pt")
            assert task.model.head.steps.item() == 2

    @pytest.mark.parametrize(("eval_batch_size", "dev"), [(None, [1, 1, 1]), (2, [2, 1])])
    def test_dev_has_batches_of_its_own_size(self, eval_batch_size, dev):
        task = Line([1])
        fit(task, epochs=1, batch_size=1, eval_batch_size=eval_batch_size)
        assert task.batches == [1, 1, 1, *dev]

    def test_the_loss_is_the_mean_over_batches(self):
        state = fit(Line([1]), epochs=1, lr=1e-9, batch_size=1, grad_norm=None)
        assert state.curve[0]["loss"] == pytest.approx((9 + 36 + 81) / 3)

    def test_plateau(self):
        """The rate halves after more than one epoch without a better score; the curve has it as it is afterwards."""
        state = fit(Line([5, 1, 1, 1, 6, 1]), epochs=6, lr=0.1, plateau_factor=0.5, plateau_patience=1)
        assert [epoch["lr"] for epoch in state.curve] == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.05, 0.05])
        state = fit(Line([5, 1, 1, 1, 1]), epochs=5, lr=0.1, plateau_factor=0.5, plateau_patience=0)
        assert [epoch["lr"] for epoch in state.curve] == pytest.approx([0.1, 0.05, 0.025, 0.0125, 0.00625])

    def test_dev_and_the_best_weights_are_the_average_of_the_steps(self):
        """One step an epoch: the averaged weight is worked out from the steps that a run without it takes."""
        plain, averaged = Line([1, 2, 3, 4]), Line([1, 2, 4, 3])
        fit(plain, epochs=4, lr=0.001, ema=None)
        fit(averaged, epochs=4, lr=0.001, ema=0.25)
        expected, average = [], 0.0
        for step, weight in enumerate(plain.seen, start=1):
            decay = min(0.25, (1 + step) / (10 + step))
            average = decay * average + (1 - decay) * weight
            expected.append(average)
        assert averaged.seen == pytest.approx(expected)
        assert averaged.model.head.weight.item() == averaged.seen[2]


def test_the_loss_has_the_penalty_of_the_features():
    """At weight 0 the squares are 9 (1 + 4 + 9)."""

    class Penalised(Lengths):
        def penalty(self):
            return torch.tensor(7.0)

    task = Line()
    assert TaskModel(Penalised(), LineHead()).loss(task.collate(TRAIN)).item() == pytest.approx(9 * 14 + 7)


def test_each_seed_and_each_epoch_has_its_own_dropout_and_its_own_batches():
    drawn, orders = {}, {}

    class Watched(LineHead):
        def loss(self, features, batch):
            drawn.setdefault(now, []).append(torch.rand(()).item())
            orders.setdefault(now, []).append(tuple(batch.ids))
            return super().loss(features, batch)

    class Counting(Line):
        def score(self, examples, predictions):
            nonlocal now
            now = now[0], now[1] + 1
            return super().score(examples, predictions)

    for seed in (1, 2):
        now = seed, 1
        task = Counting([1, 2])
        task.model = TaskModel(Lengths(), Watched())
        fit(task, [(str(number), 1, 0.0) for number in range(20)], seed=seed, epochs=2, batch_size=5)
    for found in (drawn, orders):
        assert found.keys() == {(1, 1), (1, 2), (2, 1), (2, 2)}
        assert len(set(map(tuple, found.values()))) == 4


def test_adam_in_one_kernel_takes_the_steps_of_adam(tmp_path, monkeypatch):
    """Also from a checkpoint of the plain one."""
    ours, plain, both = Line([1, 2, 3, 4]), Line([1, 2, 3, 4]), Line([1, 2, 3, 4])
    fit(ours, epochs=4)
    with monkeypatch.context() as patch:
        patch.setitem(OPTIMIZERS, "adam", torch.optim.Adam)
        fit(plain, epochs=4)
        fit(both, epochs=2, checkpoint=tmp_path / "checkpoint.pt")
    fit(both, epochs=4, checkpoint=tmp_path / "checkpoint.pt")
    assert ours.seen == pytest.approx(plain.seen, rel=1e-6)
    assert both.seen == pytest.approx(plain.seen, rel=1e-6)


class TestNonFiniteLoss:
    def test_names_the_batch(self):
        train = [("fine", 1, 1.0), ("broken", 2, math.nan), ("good", 3, 1.0)]
        # The weight is NaN after the broken step, so the error must name the first bad step.
        with pytest.raises(NonFiniteLoss, match=r"epoch 1, step \d: the loss is nan. The batch: broken\. Try a lower"):
            fit(Line([1]), train, batch_size=1)

    def test_names_all_of_the_batch_and_no_other(self):
        train = [(f"short{i}", 1, 1.0) for i in range(4)] + [(f"long{i}", 50, math.inf) for i in range(3)]
        with pytest.raises(NonFiniteLoss) as caught:
            fit(Line([1]), train, batch_size=4)
        assert "epoch 1, " in str(caught.value)
        assert all(f"long{i}" in str(caught.value) for i in range(3))
        assert "short" not in str(caught.value)

    def test_leaves_the_curve_up_to_it(self):
        class BreaksAfterTwoEpochs(Line):
            def collate(self, examples):
                if len(self.seen) == 2:
                    examples = [(name, length, math.nan) for name, length, _ in examples]
                return super().collate(examples)

        state = FitState()
        with pytest.raises(NonFiniteLoss, match="epoch 3, step 1"):
            fit(BreaksAfterTwoEpochs([1, 2]), state=state)
        assert [epoch["epoch"] for epoch in state.curve] == [1, 2]


class TestOutOfMemory:
    """Three sentences of up to three tokens are more than this head can take."""

    @staticmethod
    def refuses(features, batch):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    @pytest.mark.parametrize(("method", "when"), [("loss", "epoch 1, step 1"), ("decode", "predicting")])
    def test_names_the_batch_s_size_and_what_to_set(self, monkeypatch, method, when):
        task = Line([1])
        monkeypatch.setattr(task.model.head, method, self.refuses)
        with pytest.raises(OutOfMemory, match=f"{when}: out of memory with a batch of 3 examples of up to 3") as caught:
            fit(task)
        for hint in ("trainer.batch_tokens", "trainer.batch_size", "store.memory_gb", "20.00 GiB"):
            assert hint in str(caught.value)


class TestDamagedCheckpoint:
    """What a loss of power or a full disk leaves; the run must not be stuck with it."""

    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "checkpoint.pt"
        fit(Line([1, 2]), epochs=2, checkpoint=path)
        return path

    @pytest.mark.parametrize("damage", ["half", "other"])
    def test_is_reported_with_a_remedy(self, path, damage):
        if damage == "other":
            torch.save({"fingerprint": ""}, path)
        else:
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(
            InputError, match=re.escape(str(path)) + r".*Delete it .*retry=failed.*starts from its first"
        ):
            fit(Line([3]), epochs=3, checkpoint=path)
        path.unlink()
        assert fit(Line([1, 2, 3]), epochs=3, checkpoint=path).epoch == 3

    @pytest.mark.parametrize("part", ["model", "best", "average"])
    def test_a_tensor_of_another_shape_is_not_spread_over_the_weights(self, tmp_path, part):
        path = tmp_path / "checkpoint.pt"
        fit(Line([1, 2]), epochs=2, checkpoint=path, ema=0.5, optimizer="adadelta", weight_decay=0.1)
        saved = torch.load(path, weights_only=True)
        holder = {"average": saved["average"]["values"]}.get(part, saved[part])
        holder["head.weight"] = holder["head.weight"].reshape(1)
        write_tensors(path, saved)
        place = rf"{re.escape(str(path))}: the tensor head\.weight"
        expected = rf"^{place}: expected .*found .* \(1,\)\. {re.escape(START_AGAIN)}$"
        with pytest.raises(InputError, match=expected):
            fit(Line([3]), epochs=3, checkpoint=path, ema=0.5, optimizer="adadelta", weight_decay=0.1)


def test_one_line_per_epoch_off_a_terminal(capsys):
    task = Line([1, 2])
    Trainer(task, TrainerConfig(epochs=2), 1, CPU, Reporter("mini ner")).fit(task.model, TRAIN, TRAIN)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("mini ner  epoch 1/2  loss ")
    assert lines[1].startswith("  epoch 2/2  loss ")
    assert "dev score 2.00  best 2.00 (epoch 2)" in lines[1]
