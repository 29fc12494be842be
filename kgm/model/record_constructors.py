"""Constructors of records with one to sixteen fields. `kgm.model.record` gives them names and setters (s1, s2, ...):
compiling one for each class takes four times as long as making the rest of the class."""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, F821
# fmt: off

def _with_1(self, *, v1):
    s1(self, v1)


def _with_2(self, *, v1, v2):
    s1(self, v1)
    s2(self, v2)


def _with_3(self, *, v1, v2, v3):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)


def _with_4(self, *, v1, v2, v3, v4):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)


def _with_5(self, *, v1, v2, v3, v4, v5):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)


def _with_6(self, *, v1, v2, v3, v4, v5, v6):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)


def _with_7(self, *, v1, v2, v3, v4, v5, v6, v7):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)


def _with_8(self, *, v1, v2, v3, v4, v5, v6, v7, v8):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)


def _with_9(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)


def _with_10(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)
    s10(self, v10)


def _with_11(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)
    s10(self, v10)
    s11(self, v11)


def _with_12(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)
    s10(self, v10)
    s11(self, v11)
    s12(self, v12)


def _with_13(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)
    s10(self, v10)
    s11(self, v11)
    s12(self, v12)
    s13(self, v13)


def _with_14(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)
    s10(self, v10)
    s11(self, v11)
    s12(self, v12)
    s13(self, v13)
    s14(self, v14)


def _with_15(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)
    s10(self, v10)
    s11(self, v11)
    s12(self, v12)
    s13(self, v13)
    s14(self, v14)
    s15(self, v15)


def _with_16(self, *, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15, v16):
    s1(self, v1)
    s2(self, v2)
    s3(self, v3)
    s4(self, v4)
    s5(self, v5)
    s6(self, v6)
    s7(self, v7)
    s8(self, v8)
    s9(self, v9)
    s10(self, v10)
    s11(self, v11)
    s12(self, v12)
    s13(self, v13)
    s14(self, v14)
    s15(self, v15)
    s16(self, v16)


#: By the number of fields.
CONSTRUCTORS = {
    1: _with_1,
    2: _with_2,
    3: _with_3,
    4: _with_4,
    5: _with_5,
    6: _with_6,
    7: _with_7,
    8: _with_8,
    9: _with_9,
    10: _with_10,
    11: _with_11,
    12: _with_12,
    13: _with_13,
    14: _with_14,
    15: _with_15,
    16: _with_16,
}
