"""What a submission says, in a teacher's table: a spreadsheet takes none of it for a formula."""

import pytest

from ringside.check import grade


@pytest.mark.parametrize("sign", "=+-@")
def test_no_sign_of_a_formula_begins_a_field(sign):
    assert grade._harmless(f"{sign}1+2") == f"'{sign}1+2"
    assert grade._harmless(f"1{sign}2") == f"1{sign}2"
