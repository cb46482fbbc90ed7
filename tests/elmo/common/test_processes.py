"""Jobs that run ahead of their consumer: order, bound and cancellation. Ctrl-C that waits for the end of a block."""

import multiprocessing
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from itertools import count, islice

import pytest

from elmo.common.errors import InputError
from elmo.common.processes import ahead, interrupts_held_back


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


@pytest.fixture
def python_handles_ctrl_c():
    """As in a terminal; a shell that starts pytest in the background has it ignore Ctrl-C."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_ctrl_c_waits_for_the_end_of_a_block():
    reached = []

    def work():
        with interrupts_held_back():
            signal.raise_signal(signal.SIGINT)
            reached.append("inside")
        reached.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["inside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupts_held_back():
        pass  # nothing was pressed: nothing is raised


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_an_error_inside_goes_before_ctrl_c():
    def work():
        with interrupts_held_back():
            signal.raise_signal(signal.SIGINT)
            raise InputError("the reason")

    with pytest.raises(InputError, match="the reason"):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_handlers_and_threads_are_let_be():
    seen = []
    earlier = signal.signal(signal.SIGINT, lambda *_: seen.append("handled"))
    try:
        with interrupts_held_back():
            signal.raise_signal(signal.SIGINT)
            assert seen == ["handled"]
    finally:
        signal.signal(signal.SIGINT, earlier)

    def in_thread():
        with interrupts_held_back():
            seen.append("thread")

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert seen == ["handled", "thread"]
