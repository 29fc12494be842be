"""Codecs whose source is written are those that would be compiled."""

from __future__ import annotations

import struct

import pytest

from kgm.protocol.compiler import codec_source, compile_decoder, compile_encoder
from kgm.protocol.written import names_in, written_codec
from tools.generate_codecs import PAGE, chosen, page

CODECS = chosen()
NAMES = [f"{function} {cls.__name__} v{version}" for function, cls, version in CODECS]


def test_the_module_is_what_the_tool_writes():
    assert PAGE.read_text() == page()


@pytest.mark.parametrize(("function", "cls", "version"), CODECS, ids=NAMES)
def test_a_written_codec_is_the_compiled_one(function, cls, version):
    written = written_codec(function, cls, version)
    compiled = (compile_decoder if function == "decode" else compile_encoder)(cls, version)
    assert written.__code__.co_code == compiled.__code__.co_code
    assert written.__code__.co_consts == compiled.__code__.co_consts
    assert written.__code__.co_names == compiled.__code__.co_names


@pytest.mark.parametrize(("function", "cls", "version"), CODECS, ids=NAMES)
def test_its_names_stand_for_what_the_compiler_gives_them(function, cls, version):
    _, scope = codec_source(function, cls, version)
    found = names_in(written_codec(function, cls, version).__code__, cls)
    del found["__builtins__"]
    assert found.keys() <= scope.keys() | {"unpack_from"}  # it is also the name of a method
    for name in found.keys() & scope.keys():
        ours, theirs = found[name], scope[name]
        if isinstance(theirs, struct.Struct):
            assert ours.format == theirs.format
        elif name.startswith("D_"):
            assert ours == theirs
        else:
            assert ours is theirs
