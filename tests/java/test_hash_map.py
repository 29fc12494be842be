"""The order of Java's hash maps."""

import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kgm.java.hash_map import (
    UuidMapOrder,
    first_in_map,
    grown_capacity,
    map_capacity,
    map_order,
    spread,
    uuid_bucket,
    uuid_map_order,
)
from tests.kafka.java_tools import compiled, java_command

SOURCE = Path(__file__).parent / "java" / "MapDriver.java"


def test_hash_maps_of_java():
    # HashMap<String, …> of these keys iterates so on every JVM.
    keys = ["banana", "apple", "cherry", "date", "elderberry"]
    assert [keys[i] for i in map_order(keys)] == ["banana", "date", "apple", "cherry", "elderberry"]
    assert first_in_map(keys, grown_capacity(len(keys))) == "banana"
    assert first_in_map([], 16) is None


def test_a_table_grows_at_three_quarters():
    assert [grown_capacity(n) for n in (0, 12, 13, 24, 25, 49)] == [16, 16, 32, 32, 64, 128]


def test_the_size_of_a_table_follows_from_its_order():
    keys = [f"member-{n}" for n in range(10)]
    large = [keys[i] for i in map_order(keys, 256)]
    assert map_capacity([keys[i] for i in map_order(keys)]) == 16
    capacity = map_capacity(large)
    assert 16 < capacity <= 256
    assert [keys[i] for i in map_order(keys, capacity)] == large
    assert map_capacity(large[::-1]) is None


def test_a_crowded_bucket_doubles_a_small_table():
    # "Aa" and "BB" have one hash, and so do all words of three of them.
    alike = ["".join(w) for w in [("Aa", "Aa"), ("Aa", "BB"), ("BB", "Aa"), ("BB", "BB")]]
    eight = [a + b for a in ("Aa", "BB") for b in alike]
    nine = [*eight, "C#AaAa"]
    assert len({map_order([word])[0] for word in nine}) == 1
    # 32 buckets instead of 16 tell "0" (48) and " " (32) apart from "@" (64): 16 and 0.
    assert [[*nine, "0", " "][i] for i in map_order([*nine, "0", " "]) if i >= 9] == [" ", "0"]
    assert ["0 "[i] for i in map_order(["0", " "])] == ["0", " "]


def test_ids_of_one_bucket_keep_the_order_of_insertion():
    one, other, elsewhere = (bytes(15) + bytes([number]) for number in (1, 17, 0))
    assert uuid_bucket(one) == uuid_bucket(other) != uuid_bucket(elsewhere)
    assert uuid_map_order([one, elsewhere, other]) == [elsewhere, one, other]
    assert uuid_map_order([other, one, elsewhere]) == [elsewhere, other, one]


def random_map(chance):
    """(room, what is done to the map: "+?-", number and hash code of a key). Half of the keys share a bucket of a small
    map; there are never so many in one bucket of a larger one that it becomes a tree."""
    room, deeds, there = chance.choice([0, 5, 16, 16, 20, 40]), [], {}
    crowd, taken = chance.randrange(16), Counter()
    for number in range(chance.randint(1, 45)):
        found = chance.randrange(2**31)
        if chance.random() < 0.5:
            found = found & ~0xF | (crowd ^ (found >> 16)) & 0xF
        taken[spread(found) & 63] += 1
        if max(taken.values()) > 6:
            break
        there[number] = found
        deeds.append((chance.choice("+?"), number, found))
        if chance.random() < 0.2:
            again = chance.choice([*there])
            deeds.append(("?", again, there[again]))
        if chance.random() < 0.2:
            gone = chance.choice([*there])
            deeds.append(("-", gone, there.pop(gone)))
    return room, deeds


def played(room, deeds):
    """The numbers of the keys in the order that we have them in."""
    order = UuidMapOrder(room)
    act = {"+": order.put, "?": order.compute_if_absent, "-": order.remove}
    for what, number, found in deeds:
        act[what](number.to_bytes(4) * 2 + bytes(4) + found.to_bytes(4))
    return [int.from_bytes(key[:4]) for key in order]


@pytest.mark.kafka
@pytest.mark.slow
def test_maps_of_ids_are_in_the_order_of_javas():
    chance = random.Random(9)
    maps = [random_map(chance) for _ in range(5_000)]
    asked = [" ".join([str(room), *(f"{what}{n}:{found}" for what, n, found in deeds)]) for room, deeds in maps]
    done = subprocess.run(
        java_command("MapDriver", class_path=str(compiled([SOURCE], "")), heap_mb=128),
        input="\n".join(asked) + "\n", capture_output=True, check=True, text=True,
    )  # fmt: skip
    answers = [[int(number) for number in line.split()] for line in done.stdout.splitlines()]
    assert len(answers) == len(maps)
    for (room, deeds), answer in zip(maps, answers, strict=True):
        assert played(room, deeds) == answer, (room, deeds)
