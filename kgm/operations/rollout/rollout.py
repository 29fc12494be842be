"""The loop of a rollout: step by step, with evidence before each step begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from kgm.model.changes import owned
from kgm.model.errors import ConditionNotMet, KgmError, PartialError, RefusedError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import live_group
from kgm.operations.bounce.prediction import simulate
from kgm.operations.rollout import removal
from kgm.operations.rollout.command_batch import CommandBatch
from kgm.operations.rollout.commands.template import CommandTemplate
from kgm.operations.rollout.events import RolloutEvent, RolloutEventKind
from kgm.operations.rollout.expectation import StepExpectation, excess, other_owners, shortfall, unknown_because
from kgm.operations.rollout.journal import JournalKind, UnwrittenLineError, resume_command
from kgm.operations.rollout.missed import Acknowledgement
from kgm.operations.rollout.observation import SETTLED, changed_since, next_rebalance_ms
from kgm.operations.rollout.progress import OpenStep, RolloutProgress, RolloutReport, without_offsets
from kgm.operations.rollout.spec import OnFailure, RolloutSpec, RolloutStep, StepKind
from kgm.operations.rollout.targets import targets_of
from kgm.operations.rollout.tools import RolloutTools
from kgm.operations.watch.events import EventKind
from kgm.operations.watch.watched_group import STABLE
from kgm.simulation.connect.group import delays_of, is_connect
from kgm.text.durations import show_duration
from kgm.text.wording import group_command, many

#: Kafka's defaults, used if the group's timeouts cannot be read.
_SESSION_TIMEOUT_MS: Final = 45_000
_REBALANCE_TIMEOUT_MS: Final = 300_000
_MOST_FACTS: Final = 20
_EMPTY: Final = "Empty"


class Rollout:
    """One run, from the first step or from where a journal ends."""

    def __init__(self, spec: RolloutSpec, progress: RolloutProgress, tools: RolloutTools) -> None:
        self._spec, self._progress, self._tools = spec, progress, tools
        self._observation, self._journal = tools.observation, tools.journal
        self._expected: StepExpectation | None = None
        self._number, self._told_ms = 0, 0
        self._batch: CommandBatch | None = None

    def run(self) -> RolloutReport:
        """Run the rest of the plan. The report includes a failure or an interruption. A second Ctrl-C
        raises KeyboardInterrupt."""
        try:
            self._run()
        except KgmError as error:
            return self._stopped(error)
        except KeyboardInterrupt as interruption:
            code = self._tools.interrupted_code()
            return self._report(self._interrupted(interruption, code), code)
        return self._report(None)

    def _report(self, error: KgmError | None, interrupted_code: int | None = None) -> RolloutReport:
        progress = self._progress
        return RolloutReport(
            steps_done=progress.steps_done, error=error, interrupted_code=interrupted_code
        )  # fmt: skip

    def _run(self) -> None:
        self._first_look()
        while self._progress.steps_done < len(self._spec.steps):
            self._number = self._progress.steps_done + 1
            self._step(self._spec.steps[self._progress.steps_done])
        progress = self._progress
        self._journal.write(JournalKind.DONE, observed=progress.totals.to_json())
        self._number = 0
        text = f"{many(progress.steps_done, 'step')} {progress.how_predicted}: {progress.totals}"
        self._emit(RolloutEventKind.DONE, text, observed=progress.totals, as_predicted=progress.as_predicted)

    def _emit(self, kind: RolloutEventKind, text: str, **more: Any) -> None:
        self._tools.observer.show(
            RolloutEvent(
                at_ms=self._tools.timekeeper.now_ms(), group_id=self._spec.group_id, kind=kind, text=text,
                step=self._number or None, steps=len(self._spec.steps), **more,
            )
        )  # fmt: skip

    # -- looking

    def _first_look(self) -> None:
        """Look for the first time. Raises KgmError if the group cannot be described, or if what happens to it cannot be
        counted."""
        self._look()
        if self._observation.error is not None:
            raise self._observation.error
        counts = self._observation.watched
        if counts.doubt is not None and counts.doubt.more is None and not self._spec.limits.accept_unseen:
            raise RefusedError(
                f"nothing was done: rebalances of group {self._spec.group_id!r} cannot be counted",
                facts=(counts.doubt.why,),
                hint="grant READ on Topic __consumer_offsets; --accept-unseen continues with what polls show",
                group_id=self._spec.group_id,
            )

    def _look(self) -> None:
        for event in self._observation.poll():
            text = event.text if event.kind is EventKind.NOTE else f"{event.kind}: {event.text}"
            self._emit(RolloutEventKind.NOTE, text, identity=event.identity)

    def _watch_until(
        self, is_over: Callable[[], bool], timeout_ms: int | None, begins_ms: Callable[[], int] = lambda: 0
    ) -> bool:
        """Poll until `is_over` returns True, then return True; False on timeout. Raises ConditionNotMet at the first
        deviation.

        begins_ms: returns when the timeout starts, in ms since the epoch; it starts now if that is earlier."""
        keeper = self._tools.timekeeper
        started_ms = keeper.now_ms()
        while True:
            self._look()
            self._check_deviations()
            if is_over():
                return True
            started_ms = max(started_ms, begins_ms())
            if timeout_ms is not None and keeper.now_ms() - started_ms >= timeout_ms:
                return False
            keeper.sleep_ms(self._spec.limits.interval_ms)

    def _check_deviations(self) -> None:
        if self._expected is None or self._observation.view is None:
            return
        counts, overall = self._observation.counts(), self._progress.overall
        found = excess(counts, self._expected, f"step {self._number}") + self._observation.intruders()
        found = self._observation.protocol_changes() + found  # first: it explains the rest
        if overall is not None and not found:
            found = excess(self._progress.totals.plus(counts), overall, "the whole rollout")
        if found:
            self._deviate(found[0], [*found[1:], *self._observation.expired()])

    def _deviate(self, what: str, facts: Sequence[str] = ()) -> NoReturn:
        raise ConditionNotMet(
            f"group {self._spec.group_id!r} deviated from the prediction: {what}",
            facts=tuple(facts)[:_MOST_FACTS],
            group_id=self._spec.group_id,
        )

    # -- a step

    def _step(self, step: RolloutStep) -> None:
        opened = self._progress.open_step
        if opened is None:
            opened = self._begin(step)
        else:
            self._reopen(step, opened)
        *stop, last = self._spec.templates(step)
        for template in stop:
            self._replace(step, opened, template)
        self._run_commands(self._taken_over(step, opened, last, is_stop=False))
        if step.kind is StepKind.STOP and step.remove and not opened.has_removed:
            self._remove(step, opened)
        limits = self._spec.limits
        self._wait_until_as_wanted("the commands", settle_ms=limits.settle_ms, most_lag=limits.most_lag)
        self._end(step, opened)

    def _taken_over(
        self, step: RolloutStep, opened: OpenStep, template: CommandTemplate, *, is_stop: bool
    ) -> CommandBatch:
        """The commands of the step, without those that have already succeeded. Those that stop a member are about the
        process that it is now: it may have been started again since the step began, also on another host."""
        group = self._observation.with_present(opened.before) if is_stop or not step.comes_back else opened.before
        targets = targets_of(self._spec, step, self._number, group)
        batch = self._batch = CommandBatch(
            template, targets, self._tools, self._spec.limits, self._emit, is_stop=is_stop
        )
        batch.take_over(opened.begun(is_stop=is_stop))
        return batch

    def _replace(self, step: RolloutStep, opened: OpenStep, template: CommandTemplate) -> None:
        """Stop the members, remove them, and wait until the group is stable without them. An earlier run may have done
        that already: once a command that starts a member has begun, kgm no longer waits for them to be gone."""
        if not opened.has_removed:
            self._run_commands(self._taken_over(step, opened, template, is_stop=True), brings_back=False)
            self._remove(step, opened)
            opened.has_removed = True
        if not opened.commands:
            self._observation.expect_away(is_away=True)
            self._wait_until_as_wanted("the removal", settle_ms=0)
            self._observation.expect_away(is_away=False)

    def _begin(self, step: RolloutStep) -> OpenStep:
        """Describe the group, predict the step, and write both to the journal."""
        left, was_stopped = self._progress.left, self._progress.was_stopped
        if was_stopped:  # the group may still rebalance after what stopped the rollout
            self._watch_until(self._is_settled, self._timeout_ms(left), self._next_rebalance_ms)
        self._check_unchanged()
        cluster = self._tools.cluster
        cluster.renew(self._tools.timeout_ms)
        live = live_group(cluster, self._spec.group_id)
        try:
            predicted = simulate(live, self._spec.plan_of(step), draws=self._spec.draws, seed=self._spec.seed)
        except RefusedError as error:  # it was predicted when the rollout was planned: the group has changed
            self._deviate(f"step {self._number} cannot be predicted: {error.message}", error.facts)
        expected = StepExpectation.of(predicted, live.snapshot)
        self._look()
        self._progress.left = live.snapshot
        self._check_unchanged()
        if not expected.becomes_stable:
            self._deviate(f"step {self._number} would not leave it stable", expected.caveats)
        before = self._observation.begin(step, live.snapshot.member_timeouts_ms)
        between = self._observation.happened_since(left) if was_stopped else None
        self._expected = expected
        self._journal.write(
            JournalKind.STEP_BEGIN, step=self._number, members=list(step.members), group=without_offsets(before),
            foretold=expected.to_json(), between=None if between is None else between.to_json(),
        )  # fmt: skip
        opened = OpenStep(before=before, expected=expected)
        self._progress.begin(opened, between)
        names = ", ".join(step.members)
        self._emit(RolloutEventKind.STEP, names)
        if between is not None:
            self._emit(RolloutEventKind.NOTE, f"resuming acknowledges what has happened before the step: {between}")
        self._emit(RolloutEventKind.PREDICTED, f"{expected}", expected=expected)
        return opened

    def _check_unchanged(self) -> None:
        """Raises ConditionNotMet unless the group is stable and as it was left, PartialError if that is not known."""
        latest = self._observation.latest
        if latest is None:
            error = self._observation.error
            raise PartialError(
                f"the state of group {self._spec.group_id!r} is not known: {'' if error is None else error.message}",
                group_id=self._spec.group_id,
            )
        found = self._observation.unrest()
        changed = changed_since(self._progress.left, latest)
        if self._progress.was_stopped and changed:
            self._emit(RolloutEventKind.NOTE, f"since the rollout stopped: {', '.join(changed)}")
            missing = [name for name in self._rest() if name not in {one.identity for one in latest.members}]
            changed = [f"{name} is not a member" for name in missing]
        if found or changed:
            self._deviate(f"before step {self._number} began: {(found + changed)[0]}", (found + changed)[1:])

    def _rest(self) -> list[str]:
        return [name for step in self._spec.steps[self._progress.steps_done :] for name in step.members]

    def _reopen(self, step: RolloutStep, opened: OpenStep) -> None:
        """Continue a step that an earlier run began."""
        self._emit(RolloutEventKind.STEP, f"{', '.join(step.members)}, already begun")
        if not self._is_at_rest(step):
            self._watch_until(lambda: self._is_at_rest(step), self._timeout_ms(opened.before))
        if self._observation.latest is None:
            self._check_unchanged()
        acknowledged = self._observation.resume(
            step, opened.before, opened.acknowledged, is_acknowledged=self._progress.was_stopped
        )
        if self._progress.was_stopped and acknowledged is not None:
            self._acknowledge(acknowledged)
        self._expected = opened.expected
        self._emit(RolloutEventKind.PREDICTED, f"{opened.expected}", expected=opened.expected)
        self._check_deviations()

    def _acknowledge(self, acknowledged: Acknowledgement) -> None:
        """Write what the operator acknowledges to the journal: what happens from now on is compared with the
        prediction, also if kgm is killed or interrupted."""
        self._journal.write(
            JournalKind.ACKNOWLEDGED, step=self._number, group=without_offsets(acknowledged.group),
            observed=acknowledged.counts.to_json(), deviations=list(acknowledged.deviations),
        )  # fmt: skip
        self._progress.acknowledge(acknowledged)
        self._emit(RolloutEventKind.NOTE, f"resuming acknowledges what has happened in the step: {acknowledged}")

    def _is_settled(self) -> bool:
        latest = self._observation.latest
        return latest is None or latest.is_settled is not False

    def _is_at_rest(self, step: RolloutStep) -> bool:
        """Whether the group is stable or, in a step that takes members away, empty: they may be all that it has."""
        latest = self._observation.latest
        states = (STABLE,) if step.kind is StepKind.BOUNCE else (STABLE, _EMPTY)
        return latest is not None and latest.state in states

    def _timeout_ms(self, before: GroupSnapshot) -> int:
        held_back_ms = delays_of(self._spec.settings)[0] if is_connect(before) else 0
        return held_back_ms + self._spec.step_timeout_ms(
            self._spec.session_timeout_ms or (before.session_range_ms or (0, _SESSION_TIMEOUT_MS))[1],
            self._spec.rebalance_timeout_ms or before.rebalance_timeout_ms or _REBALANCE_TIMEOUT_MS,
        )

    def _run_commands(self, batch: CommandBatch, *, brings_back: bool = True) -> None:
        """Run the commands. brings_back: whether they start members, so that a member that has already been restarted
        needs none. Raises PartialError if a command has failed, once all others have ended."""
        if batch.unfinished:
            # These were begun before kgm was killed: members that come back do not need a second command.
            batch.wait_for_earlier(lambda is_over: self._watch_until(is_over, self._spec.limits.command_timeout_ms))
            if brings_back:
                self._watch_until(
                    lambda: all(map(self._observation.has_restarted, batch.unfinished)), self._spec.restart_time_ms
                )
        if brings_back:
            begun = [name for name in batch.to_run if batch.was_begun(name)]
            batch.skip([name for name in begun if self._observation.has_restarted(name)])
        try:
            batch.start()
        finally:
            self._progress.has_run |= batch.has_run
        try:
            self._watch_until(batch.poll, None)
            batch.check()
        except KgmError:
            batch.wait()  # a command is never abandoned halfway
            self._look()  # the commands may have changed the group since the last poll
            raise
        except KeyboardInterrupt:
            batch.end_overdue()
            raise

    def _remove(self, step: RolloutStep, opened: OpenStep) -> None:
        cluster, spec = self._tools.cluster, self._spec
        cluster.renew(self._tools.timeout_ms)
        reason = removal.RESTART if step.comes_back else removal.SCALE_IN
        prepared = removal.prepare_removal(
            cluster, spec.group_id, step.remove, reason=reason, assume_stopped=spec.assume_stopped,
            session_timeout_ms=spec.session_timeout_ms, on_wait=self._waits_for_guard,
        )  # fmt: skip
        removal.refuse_returned(prepared, opened.stopped)
        self._journal.write(JournalKind.REMOVAL_BEGIN, step=self._number, members=list(step.remove))
        cluster.renew(self._tools.timeout_ms)
        report = removal.execute_removal(cluster, prepared, self._tools.operator, self._tools.audit)
        shown = [{"identity": one.target.id, "result": str(one.result)} for one in report.results]
        self._journal.write(JournalKind.REMOVAL_END, step=self._number, results=shown)
        text = ", ".join(f"{one['identity']} {one['result']}" for one in shown)
        self._emit(RolloutEventKind.NOTE, f"one LeaveGroup: {text}")
        if report.interrupted:  # the removal came to its end first
            raise KeyboardInterrupt

    def _waits_for_guard(self, window_ms: int) -> None:
        text = f"it is not known yet whether all have stopped: kgm watches them, for up to {show_duration(window_ms)}"
        self._emit(RolloutEventKind.NOTE, text)

    def _wait_until_as_wanted(self, after: str, *, settle_ms: int, most_lag: int | None = None) -> None:
        """Wait until nothing is missing and the group has been quiet for `settle_ms`. after: what was done before, in
        words."""
        observation = self._observation
        observation.restart_quiet_time()

        def unread() -> str | None:
            return None if self._spec.limits.accept_unseen else observation.watched.log_interrupted_because

        def is_over() -> bool:
            is_quiet = observation.quiet_ms() >= settle_ms
            return is_quiet and unread() is None and not observation.missing(most_lag=most_lag)

        opened = self._progress.open_step
        assert opened is not None
        timeout_ms = self._timeout_ms(opened.before)
        if self._watch_until(is_over, timeout_ms, self._next_rebalance_ms):
            return
        missing = observation.missing(most_lag=most_lag)
        unknown = unread() if observation.latest is not None else missing[0]
        if unknown is not None and (observation.latest is None or not missing):
            raise PartialError(
                f"the outcome of step {self._number} is not known: {unknown}", group_id=self._spec.group_id
            )
        missing = missing or [f"it has not been quiet for {show_duration(settle_ms)}"]
        self._deviate(f"{show_duration(timeout_ms)} after {after} of step {self._number}: {missing[0]}", missing[1:])

    def _next_rebalance_ms(self) -> int:
        """When the group will rebalance on its own, in ms since the epoch; 0 if it will not. It is reported once, and a
        step waits for it unless its timeout was given."""
        latest, now_ms = self._observation.latest, self._tools.timekeeper.now_ms()
        due_ms = next_rebalance_ms(latest, now_ms)
        if due_ms is None or latest is None:
            return 0
        if due_ms != self._told_ms:
            self._told_ms = due_ms
            self._emit(RolloutEventKind.NOTE, SETTLED.check(latest).seen)
        return due_ms if self._spec.limits.step_timeout_ms is None else 0

    def _end(self, step: RolloutStep, opened: OpenStep) -> None:
        """Compare with the prediction, wait for the pause, and record in the journal that the step is over."""
        observation, expected = self._observation, self._expected
        latest = observation.latest
        assert expected is not None
        assert latest is not None
        counts = observation.counts()
        unknown = unknown_because(counts, expected)
        if unknown is not None and not self._spec.limits.accept_unseen:
            raise PartialError(
                f"what happened in step {self._number} is not known: {unknown}",
                facts=["--accept-unseen continues with what was seen, also with --resume"],
                group_id=self._spec.group_id,
            )
        different = other_owners(owned(latest), expected) if step.comes_back else None
        if different is not None:
            if opened.acknowledged is None:
                self._deviate(f"after step {self._number}: {different}")
            self._emit(RolloutEventKind.NOTE, different)
            self._progress.deviate()
        counts = observation.all_counts()
        for text in shortfall(counts, expected):
            self._emit(RolloutEventKind.NOTE, text)
        as_predicted = self._progress.judge(counts)
        text = str(counts) if as_predicted is not False else f"{counts}, not as predicted, which --resume acknowledged"
        self._emit(RolloutEventKind.OBSERVED, text, observed=counts, as_predicted=as_predicted)
        if self._number < len(self._spec.steps) and self._spec.pause_ms:
            self._watch_until(lambda: False, self._spec.pause_ms)
            latest = observation.latest or latest
            counts = observation.all_counts()
            as_predicted = self._progress.judge(counts)
        self._progress.totals = self._progress.totals.plus(counts)
        self._journal.write(
            JournalKind.STEP_END, step=self._number, observed=counts.to_json(), as_predicted=as_predicted,
            group=without_offsets(latest),
        )  # fmt: skip
        self._progress.left = latest
        self._progress.steps_done += 1
        self._progress.open_step = None
        self._observation.view, self._expected, self._batch = None, None, None

    # -- the end

    def _stopped(self, error: KgmError) -> RolloutReport:
        """Write the journal and the events of a rollout that cannot continue, and run the --on-failure command. Ctrl-C
        meanwhile ends kgm as interrupted; the error is the same."""
        progress, spec, is_seen = self._progress, self._spec, self._has_seen(error)
        is_final = spec.on_failure is OnFailure.ABORT
        if progress.has_run and not isinstance(error, PartialError | ConditionNotMet):
            error = PartialError(error.message, facts=error.facts, hint=error.hint, group_id=spec.group_id)
        if not progress.has_run and isinstance(error, ConditionNotMet):
            error = RefusedError(f"nothing was done: {error.message}", facts=error.facts, group_id=spec.group_id)
        if not progress.has_run and isinstance(error, UnwrittenLineError):
            error = error.as_refusal(then=", then start it again" if is_final else "", group_id=spec.group_id)
        self._emit(RolloutEventKind.DEVIATION, "; ".join([error.message, *error.facts]))
        with contextlib.suppress(KgmError):  # it may be why the rollout has stopped
            self._journal.write(
                JournalKind.STOP, reason=error.message, facts=list(error.facts), exit_code=error.exit_code,
                is_seen=is_seen, is_final=is_final,
            )  # fmt: skip
        interrupted_code: int | None = None
        try:
            if self._batch is not None and progress.has_run:
                self._run_failure_command(self._batch)
        except KeyboardInterrupt:
            interrupted_code = self._tools.interrupted_code()
        if progress.has_run:  # a command that is still running may change the group: kgm last saw it before that
            error.facts = (*error.facts, self._where() if interrupted_code is None else self._how_far)
        resumed = "" if is_final or self._journal.is_gone else f"; to continue: {resume_command(self._journal.path)}"
        error.hint = (error.hint or group_command("describe", spec.group_id)) + resumed
        return self._report(error, interrupted_code)

    def _has_seen(self, error: KgmError) -> bool:
        """Whether what has happened to the group until this error was compared with the prediction: only then does
        resuming acknowledge it."""
        observation = self._observation
        is_watched = self._progress.open_step is not None and observation.view is not None
        return isinstance(error, ConditionNotMet) or (is_watched and observation.latest is not None)

    def _interrupted(self, interruption: KeyboardInterrupt, code: int) -> KgmError:
        """Write the journal and the events of a rollout that the operator has stopped, so that no command runs any
        more; the error that says how far it has come. The group is not described again: the operator is waiting."""
        group_id = self._spec.group_id
        facts: tuple[str, ...] = ()
        if isinstance(interruption, removal.InterruptedRemoval):
            facts = (interruption.error.message, *interruption.error.facts)
        with contextlib.suppress(KgmError):
            self._journal.write(
                JournalKind.STOP, reason="interrupted", facts=list(facts), exit_code=code, is_seen=False, is_final=False
            )
        self._emit(RolloutEventKind.NOTE, "; ".join(["interrupted", *facts]))
        if not self._progress.has_run:
            return RefusedError("nothing was done: the rollout was interrupted", group_id=group_id)
        return PartialError(
            "the rollout was interrupted", facts=(*facts, self._how_far), hint=group_command("describe", group_id),
            group_id=group_id,
        )  # fmt: skip

    @property
    def _how_far(self) -> str:
        return self._progress.how_far(self._spec.steps)

    def _where(self) -> str:
        """Where the rollout stands, in words."""
        missing = self._observation.missing() if self._observation.view is not None else []
        latest = self._observation.latest
        state = "the group cannot be described" if latest is None else f"the group is {latest.state}"
        return "; ".join(dict.fromkeys([self._how_far, state, *missing[:3]]))

    def _run_failure_command(self, batch: CommandBatch) -> None:
        template = self._spec.failure_template()
        if template is None:
            return
        try:
            failure = CommandBatch(
                template, batch.targets, self._tools, self._spec.limits, self._emit, is_on_failure=True
            )  # fmt: skip
            failure.start()
            failure.wait()
            self._look()
        except KgmError as error:  # why the rollout has stopped matters more
            self._emit(RolloutEventKind.NOTE, f"--on-failure: {error.message}")
