"""What `kgm rollout` prints: a line for each event as it happens, or a document at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from kgm.cli import invocation
from kgm.cli.output.notices import Notices
from kgm.cli.output.report import Report, cluster_json, object_table, rendered
from kgm.cli.output.streams import write_stdout
from kgm.model.errors import KgmError, OutputError, PartialError
from kgm.text.sanitize import clean, json_text
from kgm.text.shell import shell_line, shell_word
from kgm.text.timestamps import rfc3339
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.cli.output.output_options import OutputOptions
    from kgm.client import AdminClient
    from kgm.operations.rollout.commands.template import CommandTarget
    from kgm.operations.rollout.events import RolloutEvent
    from kgm.operations.rollout.progress import RecordedRollout, RolloutReport
    from kgm.operations.rollout.session import PlannedRollout
    from kgm.operations.rollout.spec import RolloutStep

SCHEMA = "kgm.rollout/v1"
#: The names of events in text, if they differ from those in JSON.
_TEXT_NAMES = {"foretold": "predicted"}


class RolloutPrinter:
    """Shows the events of one run. Neither a reader that has gone nor a full disk ends a rollout."""

    def __init__(self, options: OutputOptions, group_id: str) -> None:
        self._options, self._group_id = options, group_id
        self._notices = Notices()
        self._items: list[Mapping[str, Any]] = []
        self._steps: list[Mapping[str, Any]] = []
        self._is_dry_run = False
        self._failure: OutputError | None = None
        self.journal: str | None = None

    # -- before

    def note(self, text: str) -> None:
        self._notices.note(f"{self._group_id}: {text}")

    def plan(self, planned: PlannedRollout, understood: str) -> None:
        """Show the plan as kgm understood it, and its prediction. understood: the plan in words."""
        expected, spec = planned.expected, planned.spec
        self._steps = [_step_json(number, step) for number, step in enumerate(spec.steps, 1)]
        steps = many(len(spec.steps), "step")
        self._notices.note(f"{self._group_id}: {understood}: {steps}")
        self._notices.note(f"predicted: {expected} ({expected.certainty})")
        for caveat in expected.caveats:
            self._notices.note(f"note: {caveat}")

    def planned(self, planned: PlannedRollout) -> None:
        """Show the commands of a dry run."""
        self._is_dry_run = True
        steps = planned.spec.steps
        for number, step in enumerate(steps, 1):
            commands = [one for one in planned.commands if one[0].step == number]
            for place, (target, argv) in enumerate(commands):
                if step.remove and step.comes_back and place == len(commands) // 2:
                    self._planned_removal(step, number, len(steps))
                self._add(_planned_json(target, argv, len(steps), self._group_id), shell_line(argv), number)
            if step.remove and not step.comes_back:
                self._planned_removal(step, number, len(steps))

    def _planned_removal(self, step: RolloutStep, number: int, steps: int) -> None:
        names = ", ".join(step.remove)
        item = _item(self._group_id, None, "note", number, steps, f"one LeaveGroup: {names}")
        self._add(item, f"one LeaveGroup removes {names}", number)

    def resumed(self, recorded: RecordedRollout) -> None:
        spec, progress = recorded.spec, recorded.progress
        self._steps = [_step_json(number, step) for number, step in enumerate(spec.steps, 1)]
        begun = "" if progress.open_step is None else f", step {progress.steps_done + 1} has begun"
        self._notices.note(f"{self._group_id}: {progress.steps_done} of {many(len(spec.steps), 'step')} done{begun}")

    # -- while it runs

    def show(self, event: RolloutEvent) -> None:
        """A `RolloutObserver`."""
        if event.argv is not None:
            invocation.mark_changed()
        item = {"at": rfc3339(event.at_ms), "group_id": event.group_id, **event.to_json()}
        self._add(item, event.text, event.step)

    def _add(self, item: Mapping[str, Any], text: str, step: int | None) -> None:
        self._items.append(item)
        if self._options.output == "ndjson":
            self._write(json_text(json.dumps(item, ensure_ascii=False)) + "\n")
        elif not self._options.is_data:
            at = "" if item["at"] is None else f"{str(item['at'])[:19]}Z  "
            where = "" if step is None else f"step {step}/{item['steps']}  "
            name = _TEXT_NAMES.get(item["event"], item["event"])
            self._write(clean(f"{at}{self._group_id}  {where}{name}  {text}") + "\n")

    def _write(self, text: str) -> None:
        try:
            write_stdout(text)
        except OutputError as error:
            if self._failure is None:
                self._failure = error
                self._notices.warn(f"{error.message}; the rollout continues, and its journal has everything")

    def interrupted(self) -> None:
        command = invocation.with_cluster(f"kgm rollout --resume {shell_word(str(self.journal))}")
        is_there = self.journal is not None and os.path.lexists(self.journal)
        then = f"{command} continues" if is_there else f"there is no journal {self.journal}, so it cannot be resumed"
        self._notices.note(f"interrupted: commands that were running continue; {then}")

    # -- the end

    def finish_dry_run(self, error: KgmError | None, connected: AdminClient) -> NoReturn:
        outcome = "refused" if error is not None else "planned"
        self._end(outcome, 0, error, connected, code=0 if error is None else error.exit_code)

    def finish(self, report: RolloutReport, connected: AdminClient) -> NoReturn:
        error = report.error
        outcome = "done" if error is None else {8: "deviated", 6: "refused"}.get(error.exit_code, "failed")
        if report.interrupted_code is not None:
            self.interrupted()
        self._end(outcome, report.steps_done, error, connected, code=report.exit_code)

    def _end(
        self, outcome: str, steps_done: int, error: KgmError | None, connected: AdminClient, *, code: int
    ) -> NoReturn:
        from kgm.cli.output.failures import error_text

        if self._options.is_data and self._options.output != "ndjson":
            self._write(rendered(self._document(outcome, steps_done, error, connected), self._options))
        if error is not None:
            self._notices.write(error_text(error))
        elif self.journal is not None:
            self._notices.note(f"the journal is {self.journal}")
        if self._failure is not None and not code:
            code = PartialError.exit_code if invocation.has_changed() else OutputError.exit_code
        raise typer.Exit(code)

    def _document(self, outcome: str, steps_done: int, error: KgmError | None, connected: AdminClient) -> Report:
        columns = {"at": "AT", "step": "STEP", "event": "EVENT", "text": "DETAIL"}
        return Report(
            schema=SCHEMA,
            data={
                "group_id": self._group_id,
                "dry_run": self._is_dry_run,
                "journal": self.journal,
                "outcome": outcome,
                "steps_done": steps_done,
                "steps": list(self._steps),
                "events": list(self._items),
            },
            tables=[object_table(columns, self._items)],
            keys=[*columns],
            names=[name for step in self._steps for name in step["members"]],
            items=self._items,
            cluster=cluster_json(connected),
            errors=[] if error is None else [error],
        )


def _step_json(number: int, step: RolloutStep) -> dict[str, Any]:
    return {"step": number, "kind": str(step.kind), "members": list(step.members), "remove": list(step.remove)}


def _item(
    group_id: str, identity: str | None, event: str, step: int, steps: int, text: str,
    command: tuple[str, ...] | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "at": None, "group_id": group_id, "event": event, "step": step, "steps": steps, "text": text,
        "identity": identity, "command": None if command is None else list(command), "result": None, "foretold": None,
        "observed": None, "as_predicted": None,
    }  # fmt: skip


def _planned_json(target: CommandTarget, argv: tuple[str, ...], steps: int, group_id: str) -> dict[str, Any]:
    return _item(group_id, target.identity, "command", target.step, steps, shell_line(argv), argv)


def steps_text(planned: PlannedRollout) -> list[str]:
    """A line for each step with its commands."""
    lines = []
    for number, step in enumerate(planned.spec.steps, 1):
        commands = [shell_line(argv) for target, argv in planned.commands if target.step == number]
        lines.append(f"step {number}: {', '.join(step.members)}: {'; '.join(dict.fromkeys(commands))}")
    return lines


def rest_text(recorded: RecordedRollout) -> list[str]:
    """The commands, and a line for each step that is not over."""
    spec, done = recorded.spec, recorded.progress.steps_done
    lines = [f"step {number}: {', '.join(step.members)}" for number, step in enumerate(spec.steps, 1)][done:]
    commands = (
        ("--exec-stop", spec.stop_command),
        ("--exec", spec.command),
        ("--on-failure run", spec.failure_command),
    )
    return [*(f"{option} {shell_word(text)}" for option, text in commands if text is not None), *lines]
