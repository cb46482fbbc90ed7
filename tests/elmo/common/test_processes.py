"""Jobs that run ahead of their consumer: order, bound and cancellation."""

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from itertools import count, islice

import pytest

from elmo.common.processes import ahead


@pytest.mark.parametrize("items", [0, 1, 4, 5, 23])
def test_every_item_has_its_result_in_order(items):
    with ThreadPoolExecutor(3) as pool:
        assert list(ahead(pool, lambda number: number * number, range(items), 4)) == [n * n for n in range(items)]


def test_no_more_items_are_taken_than_asked_for():
    taken = []

    def items():
        for number in count():
            taken.append(number)
            yield number

    with ThreadPoolExecutor(2) as pool, closing(ahead(pool, str, items(), 5)) as results:
        assert list(islice(results, 10)) == [str(number) for number in range(10)]
        assert len(taken) == 14  # ten results, and four jobs in flight


def _ctrl_c_is_blocked(_=None):
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_ctrl_c_is_blocked_in_processes_from_their_start():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert list(ahead(pool, _ctrl_c_is_blocked, [0], 1)) == [True]
    assert not _ctrl_c_is_blocked()


def test_an_error_reaches_the_consumer():
    with ThreadPoolExecutor(2) as pool, pytest.raises(ZeroDivisionError):
        list(ahead(pool, lambda number: 1 // number, [2, 1, 0, 1], 2))
