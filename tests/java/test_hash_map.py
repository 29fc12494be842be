"""The order of Java's hash maps."""

from kgm.java.hash_map import first_in_map, grown_capacity, map_capacity, map_order, uuid_bucket, uuid_map_order


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
