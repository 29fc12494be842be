"""The commands of one step: started together, journaled before and after, each with an entry in the audit log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

from kgm.model.errors import PartialError
from kgm.operations.rollout.commands.processes import process_mark
from kgm.operations.rollout.commands.running import CommandResult, RunningCommand
from kgm.operations.rollout.commands.template import CommandTarget, CommandTemplate, by_command, environment, input_line
from kgm.operations.rollout.events import RolloutEventKind
from kgm.operations.rollout.journal import JournalKind
from kgm.operations.rollout.progress import BegunCommand
from kgm.operations.rollout.record import CommandRecord
from kgm.operations.rollout.spec import RolloutLimits
from kgm.operations.rollout.tools import RolloutTools
from kgm.text.shell import shell_line

_POLL_MS = 50


class CommandBatch:
    """Commands for some members. Call `take_over`, `start`, `poll` until it returns True, then `check`.

    is_stop: whether the commands stop members that another command starts again. has_run: whether kgm has begun to
    start one of them."""

    def __init__(
        self, template: CommandTemplate, targets: Sequence[CommandTarget], tools: RolloutTools, limits: RolloutLimits,
        emit: Callable[..., None], *, is_on_failure: bool = False, is_stop: bool = False,
    ) -> None:  # fmt: skip
        self.targets = list(targets)
        self._template, self._tools, self._limits, self._emit = template, tools, limits, emit
        self._marks = {"is_on_failure": is_on_failure, "is_stop": is_stop}
        self._begun: dict[str, BegunCommand] = {}
        self._members = {members[0].identity: members for members in by_command(template, targets)}
        self._waiting = {identity: members[0] for identity, members in self._members.items()}
        self._running: dict[str, tuple[RunningCommand, CommandRecord]] = {}
        self._results: dict[str, CommandResult] = {}
        self.has_run = False

    # -- what an earlier run has done

    def take_over(self, begun: dict[str, BegunCommand]) -> None:
        """Note commands that an earlier run has begun, and add those of this run to them. Those that succeeded do not
        run again, unless one of their members is another process by now: they did nothing to that one."""
        self._begun = begun
        self.skip([name for name, one in begun.items() if one.is_success and self._is_about(name, one)])

    def _is_about(self, identity: str, begun: BegunCommand) -> bool:
        """Whether a command was run for the members that it would run for now."""
        return all(begun.member_ids.get(one.identity) == one.member_id for one in self._members.get(identity, ()))

    @property
    def to_run(self) -> tuple[str, ...]:
        return tuple(self._waiting)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Members whose command was begun, but has no end in the journal, or left processes that may still run."""
        return tuple(name for name in self._waiting if name in self._begun and not self._begun[name].has_ended)

    def was_begun(self, identity: str) -> bool:
        return identity in self._begun

    def running_elsewhere(self) -> list[str]:
        """Members whose command an earlier run started, and which is still running."""
        return [name for name in self.unfinished if self._begun[name].is_running]

    def wait_for_earlier(self, waits: Callable[[Callable[[], bool]], bool]) -> None:
        """Wait for commands that an earlier run started. waits: waits until a condition is true; False if it does not
        become true in time. Raises PartialError if they still run then: a second command could stop another member
        beside them."""
        if not (names := self.running_elsewhere()):
            return
        whose = f"the command of {', '.join(names)} that an earlier run started"
        self._emit(RolloutEventKind.NOTE, f"{whose} is still running: waiting for its end")
        if not waits(lambda: not self.running_elsewhere()):
            raise PartialError(f"{whose} is still running", hint="end it, or wait for its end")

    def skip(self, identities: Sequence[str]) -> None:
        """Drop the commands of members that no longer need one."""
        for identity in identities:
            self._waiting.pop(identity, None)

    # -- running

    def start(self) -> None:
        """Start all commands; one that cannot be started counts as failed. Raises RefusedError if the audit log cannot
        be written, PartialError if the journal cannot; no more commands are started then."""
        ready = [
            (target, self._template.argv(target), environment(target, self._tools.environment))
            for target in self._waiting.values()
        ]  # a value that is refused is found before the first command runs
        self._waiting = {}
        for target, argv, env in ready:
            self._start(target, argv, env)

    def _start(self, target: CommandTarget, argv: list[str], env: dict[str, str]) -> None:
        identity = target.identity
        member_ids = {one.identity: one.member_id for one in self._members[identity]}
        record = CommandRecord(self._tools.audit, self._tools.operator, self._tools.cluster, target, argv)
        common = {"step": target.step, "identity": identity, **self._marks}
        self._tools.journal.write(JournalKind.COMMAND_BEGIN, argv=argv, member_ids=member_ids, **common)
        self._begun[identity] = BegunCommand(member_ids=member_ids)
        record.write_intent()
        self._emit(RolloutEventKind.COMMAND, shell_line(argv), identity=identity, argv=tuple(argv))
        self.has_run = True
        started = RunningCommand.start(
            argv, env=env, line=input_line(target), now_ms=self._tools.timekeeper.now_ms(),
            timeout_ms=self._limits.command_timeout_ms,
        )  # fmt: skip
        if isinstance(started, CommandResult):
            self._ended(identity, started, record)
            return
        self._running[identity] = started, record
        self._tools.journal.write(
            JournalKind.COMMAND_STARTED, pid=started.pid, mark=process_mark(started.pid), **common
        )

    def poll(self) -> bool:
        """Check on the commands; whether all have ended."""
        self._poll(self._running)
        return not self._running

    def _poll(self, identities: Iterable[str]) -> None:
        for identity in [*identities]:
            running, record = self._running[identity]
            result = running.poll(self._tools.timekeeper.now_ms())
            if result is not None:
                del self._running[identity]
                self._ended(identity, result, record)

    def end_overdue(self) -> None:
        """End those that have exceeded their time limit at once, because kgm was interrupted; the others continue. A
        journal that cannot be written is no error: it then has no end of them, which is what it is to say."""
        overdue = [(identity, running) for identity, (running, _) in self._running.items() if running.is_overdue]
        for _, running in overdue:
            running.hasten()
        with contextlib.suppress(PartialError):
            while left := [identity for identity, _ in overdue if identity in self._running]:
                self._poll(left)
                self._tools.timekeeper.sleep_ms(_POLL_MS)

    def wait(self) -> None:
        """Wait until all commands have ended, or were ended because they exceeded their time limit."""
        try:
            while not self.poll():
                self._tools.timekeeper.sleep_ms(_POLL_MS)
        except KeyboardInterrupt:
            self.end_overdue()
            raise

    def _ended(self, identity: str, result: CommandResult, record: CommandRecord) -> None:
        self._results[identity] = result
        begun = self._begun[identity]
        begun.has_ended, begun.is_success = not result.remaining, result.is_success
        target = next(one for one in self.targets if one.identity == identity)
        self._tools.journal.write(
            JournalKind.COMMAND_END, step=target.step, identity=identity, is_success=result.is_success,
            remaining={str(pid): mark for pid, mark in result.remaining.items()}, **self._marks, **result.to_json(),
        )  # fmt: skip
        unwritten = record.write_result(result)
        if unwritten is not None:
            self._emit(RolloutEventKind.NOTE, f"the result is not in the audit log: {unwritten}", identity=identity)
        last = result.output.strip().splitlines()[-1:] if not result.is_success else []
        text = ": ".join([f"the command of {identity} {result.text}", *last])
        self._emit(RolloutEventKind.COMMAND, text, identity=identity, result=result)

    def check(self) -> None:
        """Raises PartialError if a command has failed."""
        failed = {name: one for name, one in self._results.items() if not one.is_success}
        if failed:
            (name, result), *others = failed.items()
            output = result.output.strip()
            raise PartialError(
                f"the command of {name} {result.text}",
                facts=(*(f"{other} {one.text}" for other, one in others), *output.splitlines()[-3:]),
            )
