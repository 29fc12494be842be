#!/usr/bin/env python3
"""Decode and encode a 500-member JoinGroup and DescribeGroups response: kgm, kio and kafka-python on the same bytes.

usage: python bench/codec.py [--members N] [--rounds N]      (needs the `bench` extra: kio and kafka-python)

Best CPU time of N rounds each; the three take turns so that a noisy machine affects all of them. kio decodes in Rust.
"""

import argparse
import importlib
import io
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from figures import figure
from kafka.protocol.admin import DescribeGroupsResponse as PythonDescribe
from kafka.protocol.consumer import JoinGroupResponse as PythonJoin
from kio.serial import entity_reader, entity_writer

from kgm.protocol import codec
from kgm.protocol.messages import describe_groups_response as describe
from kgm.protocol.messages import join_group_response as join


def messages(members):
    """The two messages, for a group of consumers with 150-byte subscriptions and 200-byte assignments."""
    joined = join.JoinGroupResponse(
        generation_id=3, protocol_type="consumer", protocol_name="range", leader="consumer-0", member_id="consumer-0",
        members=[
            join.JoinGroupResponseMember(
                member_id=f"consumer-{i:037d}", group_instance_id=f"instance-{i}", metadata=bytes(150)
            )
            for i in range(members)
        ],
    )  # fmt: skip
    described = describe.DescribeGroupsResponse(
        groups=[
            describe.DescribedGroup(
                group_id="orders", group_state="Stable", protocol_type="consumer", protocol_data="range",
                members=[
                    describe.DescribedGroupMember(
                        member_id=f"consumer-{i:037d}", group_instance_id=f"instance-{i}", client_id="orders",
                        client_host="/127.0.0.1", member_metadata=bytes(150), member_assignment=bytes(200),
                    )
                    for i in range(members)
                ],
            )
        ]
    )  # fmt: skip
    return ("JoinGroup", 9, joined, PythonJoin), ("DescribeGroups", 5, described, PythonDescribe)


def kio_class(name, version):
    module = importlib.import_module(
        f"kio.schema.{'join_group' if name == 'JoinGroup' else 'describe_groups'}.v{version}.response"
    )
    return getattr(module, name + "Response")


def python_built(cls, message, version):
    """kafka-python cannot encode what it has decoded, so its message is built field by field."""

    def fields(struct):
        # kafka-python has authorized operations as a set, which cannot hold the bit for "not requested".
        rows = [row for row in struct.FIELDS if row[0] != "authorized_operations"]
        return {row[0]: value(getattr(struct, row[0]), row[1]) for row in rows}

    def value(found, kind):
        if kind.startswith("[]") and found and hasattr(found[0], "FIELDS"):
            inner = getattr(cls, kind[2:], None) or getattr(cls.DescribedGroup, kind[2:])
            return [inner(**fields(item)) for item in found]
        return found

    return cls(version=version, **fields(message))


def best(functions, rounds):
    """Best CPU milliseconds of each function; the functions take turns."""
    found = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            function()
            found[name] = min(found[name], (time.process_time() - start) * 1000)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    for name, version, message, python_class in messages(arguments.members):
        data = codec.encode(message, version)
        kio_type = kio_class(name, version)
        read, write = entity_reader(kio_type), entity_writer(kio_type)
        kio_message, _ = read(data, 0)
        python_message = python_built(python_class, message, version)
        out = io.BytesIO()
        write(out, kio_message)
        # All three must agree on the bytes, or the comparison is meaningless.
        assert out.getvalue() == data
        assert len(python_message.encode(version=version)) == len(data)
        cls = type(message)
        work = {
            "decode": {
                "kgm": lambda: codec.decode(cls, data, version),
                "kio": lambda: read(data, 0),
                "python": lambda: python_class.decode(data, version=version),
            },
            "encode": {
                "kgm": lambda: codec.encode(message, version),
                "kio": lambda: write(io.BytesIO(), kio_message),
                "python": lambda: python_message.encode(version=version),
            },
        }
        for direction, functions in work.items():
            ms = best(functions, arguments.rounds)
            title = f"{name} response v{version} of {len(data):,} bytes, {direction}"
            figure(title, "CPU ms", ms["kgm"], {"kio": ms["kio"], "kafka-python": ms["python"]})


if __name__ == "__main__":
    main()
