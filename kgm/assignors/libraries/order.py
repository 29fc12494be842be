"""How Go and Python order strings: they compare UTF-8 or code points; Java and JavaScript compare UTF-16."""

from collections.abc import Sequence

from kgm.assignors.contract import MemberSpec


def utf8_key(text: str) -> bytes:
    """Sort key for Go's strings, and for Python's."""
    return text.encode("utf-8", "surrogatepass")


def by_id(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """Members by member id, whether static or not."""
    return sorted(members, key=lambda member: utf8_key(member.member_id))


def static_first(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    """Static members by instance id, then dynamic members by member id."""
    return sorted(
        members,
        key=lambda member: (member.group_instance_id is None, utf8_key(member.group_instance_id or member.member_id)),
    )
