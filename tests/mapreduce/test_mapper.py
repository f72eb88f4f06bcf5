"""The mapper on virtual time: concurrency, retries, progress, failures, resumption."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mainspring.core.work.map_reduce import Input, MapStep
from mainspring.mapreduce.answer_log import AnswerLog, remove_old
from mainspring.mapreduce.items import open_items
from mainspring.mapreduce.mapper import MAX_CONSECUTIVE_FAILURES, Mapped, Mapper
from mainspring.mapreduce.prompt_runner import PromptRunner
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused, TaskError
from mainspring.simulation.inprocess.virtual_time import VirtualClock


class FakeInvoker:
    """A fake invoker that answers after a second; counts concurrency and calls."""

    def __init__(self, answer: Callable[[str, int], str] = lambda prompt, attempt: prompt) -> None:
        self._answer = answer
        self._now = 0
        self.most = 0
        self.asked: Counter[str] = Counter()
        self.asked_at: list[float] = []

    async def ask(self, prompt: str) -> str:
        """Answer the first, second, .. attempt of a prompt."""
        self.asked[prompt] += 1
        self.asked_at.append(round(asyncio.get_running_loop().time(), 1))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await VirtualClock().sleep(1)
            return self._answer(prompt, self.asked[prompt])
        finally:
            self._now -= 1

    async def close(self) -> None:
        """Nothing to do."""


class MapHarness:
    """Harness of a map, with its log and progress."""

    def __init__(self, place: Path | None = None) -> None:
        self.place = place
        self.clock = VirtualClock()
        self.said: list[str] = []
        self.on_progress: list[tuple[int, int]] = []

    async def map(self, oracle: FakeInvoker, count: int, *, task: str = "task_1", **step: object) -> Mapped:
        """Map `count` items with a field `n`; the answer log is kept."""
        given = msgspec.json.decode(
            msgspec.json.encode({"items": [{"n": number} for number in range(count)]}), type=Input
        )
        said = msgspec.convert({"prompt": "item {{n}}", **step}, MapStep)
        answer_log = AnswerLog(self.place, task, self.said.append)
        answer_log.open()
        try:
            with open_items(given, Path("/")) as items:
                prompt_runner = PromptRunner(oracle, said, self.clock, self.said.append)
                mapper = Mapper(
                    said,
                    prompt_runner,
                    answer_log,
                    {},
                    log=self.said.append,
                    on_progress=lambda *done: self.on_progress.append(done),
                )
                return await mapper.run(items)
        finally:
            answer_log.close()


def fails(*numbers: int, failure: str = "transient", until: int = 99) -> Callable[[str, int], str]:
    """Return an answer function that fails for these items, before attempt `until`."""

    def answer(prompt: str, attempt: int) -> str:
        if attempt < until and int(prompt.removeprefix("item ")) in numbers:
            raise TaskError(f"no luck with {prompt}", failure=failure)
        return prompt

    return answer


async def test_items_are_processed_concurrently_and_rows_keep_their_order() -> None:
    """Never above the configured concurrency."""
    oracle, world = FakeInvoker(), MapHarness()
    mapped = await world.map(oracle, 10, concurrency=3)
    assert oracle.most == 3
    assert mapped.rows == [{"n": number, "answer": f"item {number}"} for number in range(10)]
    assert world.on_progress == [(done, 10) for done in range(11)]


async def test_an_item_is_retried_with_exponential_backoff() -> None:
    """Only that one."""
    oracle, world = FakeInvoker(fails(0, until=4)), MapHarness()
    mapped = await world.map(oracle, 1, attempts=4, retry_delay_seconds=2)
    assert [row["answer"] for row in mapped.rows] == ["item 0"]
    assert oracle.asked_at == [0, 3, 8, 17], "one second per answer, and delays of 2, 4 and 8"
    parts = ("item 0", "1 of 4", "2s", "no luck with item 0")
    assert any(all(part in said for part in parts) for said in world.said)


async def test_retry_after_is_respected() -> None:
    """Unless the wait is too long for a map."""

    def answer(prompt: str, attempt: int) -> str:
        if attempt == 1:
            raise TaskError("busy", failure="rate_limited", retry_after_seconds=30 if prompt == "item 0" else 7_200)
        return prompt

    oracle = FakeInvoker(answer)
    mapped = await MapHarness().map(oracle, 2, concurrency=1)
    assert oracle.asked_at == [0, 31, 32]
    [failed] = mapped.failures
    assert (failed.index, failed.failure, failed.retry_after_seconds) == (1, "rate_limited", 7_200)


async def test_an_answer_that_never_comes_times_out() -> None:
    """Each attempt has its own timeout."""

    class Silent(FakeInvoker):
        async def ask(self, prompt: str) -> str:
            self.asked[prompt] += 1
            await VirtualClock().sleep(10_000)
            return prompt

    oracle = Silent()
    mapped = await MapHarness().map(oracle, 1, attempts=2, timeout_seconds=5)
    [failed] = mapped.failures
    assert (failed.failure, oracle.asked["item 0"]) == ("transient", 2)
    assert "5 s" in failed.error


async def test_an_answer_without_the_fields_is_retried() -> None:
    """The second answer has them."""
    oracle = FakeInvoker(lambda prompt, attempt: "hm" if attempt == 1 else '{"a": 1, "b": 2}')
    mapped = await MapHarness().map(oracle, 1, output=["a"])
    assert mapped.rows == [{"n": 0, "a": 1}]


async def test_all_items_are_processed_even_if_some_fail() -> None:
    """Permanent failures are not retried."""
    oracle, world = FakeInvoker(fails(1, 3, failure="permanent")), MapHarness()
    mapped = await world.map(oracle, 6, concurrency=2)
    assert [row["n"] for row in mapped.rows] == [0, 2, 4, 5]
    assert [(one.index, one.failure) for one in mapped.failures] == [(1, "permanent"), (3, "permanent")]
    assert oracle.asked["item 1"] == 1
    assert world.on_progress[-1] == (6, 6)


async def test_a_map_is_abandoned_after_many_consecutive_failures() -> None:
    """A success in between resets the count."""
    gone = FakeInvoker(fails(*range(10, 1_000)))
    mapped = await MapHarness().map(gone, 1_000, concurrency=1, attempts=1)
    assert mapped.was_abandoned
    assert (len(mapped.rows), len(mapped.failures), mapped.count) == (10, MAX_CONSECUTIVE_FAILURES, 1_000)

    bad = FakeInvoker(fails(*(number for number in range(200) if number % MAX_CONSECUTIVE_FAILURES)))
    assert len((await MapHarness().map(bad, 200, concurrency=1, attempts=1)).failures) == 196
    assert len((await MapHarness().map(FakeInvoker(), 200, prompt="{{missing}}")).failures) == 200, (
        "the invoker was not called"
    )


async def test_an_empty_input_succeeds() -> None:
    """A file may be empty one day."""
    world = MapHarness()
    mapped = await world.map(FakeInvoker(), 0)
    assert (mapped.rows, mapped.failures, world.on_progress) == ([], [], [(0, 0)])


async def test_a_prompt_that_cannot_be_rendered_fails_its_item() -> None:
    """The invoker is not called."""
    oracle = FakeInvoker()
    mapped = await MapHarness().map(oracle, 2, prompt="{{ 10 // n }}")
    assert [failure.index for failure in mapped.failures] == [0]
    assert len(mapped.rows) == 1


async def test_a_refused_invoker_ends_the_map() -> None:
    """A missing program is missing for every item."""

    def answer(prompt: str, attempt: int) -> str:
        raise Refused("no", reason="no_program")

    with pytest.raises(Refused) as refused:
        await MapHarness().map(FakeInvoker(answer), 10)
    assert refused.value.reason == "no_program"


async def test_the_next_attempt_asks_only_for_missing_answers(tmp_path: Path) -> None:
    """Unless the prompt has changed."""
    world, first = MapHarness(tmp_path), FakeInvoker(fails(2, failure="permanent"))
    await world.map(first, 4, output=[])
    second = FakeInvoker()
    mapped = await world.map(second, 4)
    assert list(second.asked) == ["item 2"]
    assert [row["answer"] for row in mapped.rows] == [f"item {number}" for number in range(4)]

    other, changed = FakeInvoker(), FakeInvoker()
    await world.map(other, 2, task="task_2")
    await world.map(changed, 2, prompt="thing {{n}}")
    assert sum(other.asked.values()) == sum(changed.asked.values()) == 2


async def test_incomplete_log_lines_are_ignored(tmp_path: Path) -> None:
    """The process was killed while writing; complete lines before and after are used."""
    world = MapHarness(tmp_path)
    await world.map(FakeInvoker(), 2)
    path = tmp_path / ".unfinished-task_1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"not a line\n\xff\n[]\n" + whole[:-5])

    again = FakeInvoker()
    await world.map(again, 2)
    assert list(again.asked) == ["item 1"]
    once_more = FakeInvoker()
    await world.map(once_more, 2)
    assert not once_more.asked


async def test_answers_that_cannot_be_saved_are_still_used(tmp_path: Path) -> None:
    """A file that can't grow only costs the next attempt."""
    world, limits = MapHarness(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        mapped = await world.map(FakeInvoker(), 3, concurrency=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(mapped.rows) == 3
    (said,) = world.said
    assert os.strerror(errno.EFBIG) in said


async def test_an_answer_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """It could point anywhere."""
    (tmp_path / ".unfinished-task_1.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError) as failed:  # noqa: PT011 - its code is checked
        await MapHarness(tmp_path).map(FakeInvoker(), 1)
    assert failed.value.errno == errno.ELOOP
    assert not (tmp_path / "elsewhere").exists()


def test_expired_answer_logs_are_removed(tmp_path: Path) -> None:
    """Younger logs and other files are kept."""
    clock = SystemClock()
    now = clock.wall().timestamp()
    old, new, other = (tmp_path / name for name in (".unfinished-a.jsonl", ".unfinished-b.jsonl", "result.json"))
    for path, age_days in ((old, 8), (new, 6), (other, 80)):
        path.touch()
        os.utime(path, (now - age_days * 86_400,) * 2)
    remove_old(tmp_path, clock)
    assert sorted(tmp_path.iterdir()) == [new, other]
