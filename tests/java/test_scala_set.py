"""The order of Scala's immutable sets."""

from kgm.java.scala_set import scala_set_order


def test_scala_sets_of_words_with_one_hash():
    words = ["AaAa", "BBBB", "AaBB", "BBAa", "other"]
    assert scala_set_order(words) == ["other", "AaAa", "BBBB", "AaBB", "BBAa"]
