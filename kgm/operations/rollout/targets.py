"""The members of a step as their commands see them."""

from __future__ import annotations

import shutil

from kgm.model.changes import by_identity
from kgm.model.errors import NotFoundError, RefusedError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.rollout.commands.template import (
    CommandTarget,
    CommandTemplate,
    environment,
    one_of_each_process,
    refuse_shared_commands,
)
from kgm.operations.rollout.spec import RolloutSpec, RolloutStep


def targets_of(spec: RolloutSpec, step: RolloutStep, number: int, group: GroupSnapshot) -> list[CommandTarget]:
    """The members of a step, in its order. number: the step's, from 1. Raises NotFoundError for a missing member."""
    members = by_identity(group)
    places = {name: place for place, name in enumerate(spec.members)}
    processes = {name: unit[0] for unit in spec.units for name in unit}
    targets = []
    for name in step.members:
        if name not in members:
            raise NotFoundError(f"group {spec.group_id} has no member {name}", group_id=spec.group_id)
        member = members[name]
        targets.append(
            CommandTarget(
                group_id=spec.group_id,
                step=number,
                index=places[name],
                group_instance_id=member.group_instance_id,
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host.removeprefix("/"),
                pod=spec.pods.get(name),
                partitions=member.assignment,
                unit=processes.get(name),
            )
        )
    return targets


def check_commands(spec: RolloutSpec, group: GroupSnapshot) -> list[tuple[CommandTarget, list[str]]]:
    """Every command of the rollout, in order, as it would run now; in a step, commands that stop members come before
    those that start them.

    Raises UsageError or RefusedError if a command cannot run, so that this is known before the first step and not
    halfway through."""
    commands = []
    by_command: dict[CommandTemplate, list[list[CommandTarget]]] = {}
    for number, step in enumerate(spec.steps, 1):
        targets = targets_of(spec, step, number, group)
        for template in spec.templates(step):
            by_command.setdefault(template, []).append(targets)
            _refuse_missing_program(template)
            for target in one_of_each_process(targets):
                environment(target, {})
                commands.append((target, template.argv(target)))
    for template, batches in by_command.items():
        refuse_shared_commands(template, batches)
    failure = spec.failure_template()
    if failure is not None:
        _refuse_missing_program(failure)
    for target, _ in commands if failure is not None else ():
        assert failure is not None
        failure.argv(target)
    return commands


def _refuse_missing_program(template: CommandTemplate) -> None:
    if shutil.which(template.words[0]) is None:
        raise RefusedError(f"nothing was done: program not found or not executable: {template.words[0]!r}")
