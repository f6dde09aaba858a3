"""The judge as seen from the supervisor: a Spark process that warms up while the workload runs, so that the verdict follows the drain.

The process is `python -m harness.checker.process`; requests and answers are JSON lines on its pipes. It ends when its
input closes, so it can never outlive us.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ANSWER_LIMIT = 64 << 20  # bytes of one verdict


class JudgeError(Exception):
    """The judge could not judge; the message says why and, where it is a file's fault, which."""


class JudgeProcess:
    def __init__(
        self, log: Path, *, cold: bool = False, expect_in: float | None = None, options: Sequence[str] = ()
    ) -> None:
        """`cold`: it is asked at once, so it need not warm up first. `expect_in`: seconds from its start until it is asked, roughly.
        `options`: more for its command line.
        """
        self._options = [*options, *(["--expect-in", str(expect_in)] if expect_in is not None else [])]
        self._log = log
        self._cold = cold
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Begin warming up; returns at once."""
        if self._process is None:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "harness.checker.process",
                    *(["--cold", "--nice", "0"] if self._cold else []),
                    *self._options,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    limit=ANSWER_LIMIT,
                    start_new_session=True,
                )

    async def judge(
        self, directories: list[Path], on_progress: Callable[[str], None] = lambda text: None
    ) -> dict[Path, str | None]:
        """Have run directories judged in one Spark job: what kept each from being judged, None where verdict.json was written.
        `on_progress` is told in words what is being done.

        Raises JudgeError when the process cannot work or dies.
        """
        answers = await self._ask("runs", directories, {}, on_progress)
        return {directory: answers[directory].get("error") for directory in directories}

    async def judge_elsewhere(
        self, runs: Sequence[Path | str], out: Path | None, on_progress: Callable[[str], None] = lambda text: None
    ) -> dict[Path | str, dict[str, Any]]:
        """The same for runs by path or URI; verdicts go to a directory of the same name in `out` (absolute), or next to the history
        without it. Answers are `{"error": ...}` or have the whole verdict as `document`.
        """
        more = {} if out is None else {"out": str(out)}
        return await self._ask("runs", runs, more, on_progress)

    async def judge_histories(
        self, paths: list[Path], question: dict[str, Any], on_progress: Callable[[str], None] = lambda text: None
    ) -> dict[Path, dict[str, Any]]:
        """Have histories of other tools judged in one Spark job: answers as `harness.checker.foreign.judge_path` gives them.

        `question`: fields of `harness.checker.foreign.Request`. Raises JudgeError as `judge` does.
        """
        answers = await self._ask("histories", paths, {"question": question}, on_progress)
        return {path: answers[path] for path in paths}

    async def _ask(
        self, what: str, paths: Sequence[Path | str], more: dict[str, Any], on_progress: Callable[[str], None]
    ) -> dict[Path | str, dict[str, Any]]:
        await self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        absolute = {path: path if isinstance(path, str) else str(path.resolve()) for path in paths}
        asked = [*dict.fromkeys(absolute.values())]
        try:
            self._process.stdin.write(json.dumps({what: asked, **more}).encode() + b"\n")
            await self._process.stdin.drain()
        except ConnectionError:
            raise JudgeError(await self._obituary()) from None
        found: dict[str, dict[str, Any]] = {}
        while len(found) < len(asked):
            answer = await self._answer()
            if "path" in answer:
                found[answer["path"]] = answer
            elif "doing" in answer:
                on_progress(str(answer["doing"]))
            elif "error" in answer:
                raise JudgeError(answer["error"])
        return {path: found[name] for path, name in absolute.items()}

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            line = await self._process.stdout.readline()
            if not line:
                raise JudgeError(await self._obituary())
            if line.startswith(b"{"):
                answer: dict[str, Any] = json.loads(line)
                return answer

    async def _obituary(self) -> str:
        assert self._process is not None
        code = await self._process.wait()
        said = self._log.read_text(errors="replace").strip().splitlines()
        return f"the judge's process died with code {code}: {said[-1][:300] if said else 'it said nothing'}"

    async def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                async with asyncio.timeout(20):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
            self._process = None
