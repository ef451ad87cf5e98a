"""Names of symbols for people: readable, cut, near."""

from __future__ import annotations

import pytest

from counteroof import names

PLAIN = "axpy(double, double*, double*)"


def test_mangled_names_inside_a_text_are_made_readable() -> None:
    assert names.readable("_Z4axpydPdS_[n=100]") == f"{PLAIN}[n=100]"
    assert names.readable("_Z4axpydPdS_ and _Z4axpydPdS_") == f"{PLAIN} and {PLAIN}"


@pytest.mark.parametrize("text", ["triad", "_Zebra", "my_Z4axpydPdS_", "", "a|b"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert names.readable(text) == text


def test_many_names_are_made_readable_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = names.demangle
    monkeypatch.setattr(names, "demangle", lambda all_: calls.append(1) or real(all_))
    texts = [f"_Z1fi[n={n}]" for n in range(1000)]
    assert names.all_readable(texts)["_Z1fi[n=7]"] == "f(int)[n=7]"
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("triad", 5, "triad"),
        ("abcdefghijklmnop", 10, "abcdef…nop"),
        ("void a::b<std::vector<int>, 3>(int, char const*)", 20, "void a::b<…>(…)"),
        ("void kernels::transpose<double>(double*)[n=9]", 32, "kernels::transpose<…>(…)[n=9]"),
        ("std::vector<int> ns::make_a_very_big_table<int>(int)", 24, "ns::make_a_very_…e<…>(…)"),
        ("my kernel (second variant) of many words", 30, "my kernel (…) of many words"),
        ("my kernel (second variant) of many words", 20, "my kernel (…)… words"),
        ("a::stream<1>(int*)", 17, "a::stream<1>(…)"),
        ("(anonymous namespace)::f(int, double)", 30, "(anonymous namespace)::f(…)"),
        ("f(int, double", 10, "f(int,…ble"),
        ("x::operator<<(std::ostream&)", 12, "x::opera…m&)"),
    ],
)
def test_a_name_is_cut_in_the_middle_parameters_first(text: str, room: int, expected: str) -> None:
    assert names.shortened([text], room) == {text: expected}
    assert len(expected) <= max(room, 8)


def test_a_cut_name_is_never_longer_than_its_room() -> None:
    for room in range(60):
        for short in names.shortened([PLAIN, "x" * 200, "f(" * 50, "a<b<c<d>>>::e"], room).values():
            assert len(short) <= max(room, 8)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("f", ("f", "", "")),
        ("f(int)", ("f", "", "(int)")),
        ("blas::fill(double*, unsigned long)", ("blas::fill", "", "(double*, unsigned long)")),
        ("void blas::scale<double, 4>(double*)", ("blas::scale", "<double, 4>", "(double*)")),
        ("std::vector<int> make<int>(int)", ("make", "<int>", "(int)")),
        ("M<double>::sum(int) const", ("M<double>::sum", "", "(int) const")),
        ("(anonymous namespace)::f(int)", ("(anonymous namespace)::f", "", "(int)")),
        ("M::operator*=(double)", ("M::operator*=", "", "(double)")),
        ("M::operator()(double)", ("M::operator()", "", "(double)")),
        ("M::operator<(M const&)", ("M::operator<", "", "(M const&)")),
    ],
)
def test_a_readable_function_falls_into_name_template_and_parameters(
    text: str, parts: tuple[str, str, str]
) -> None:
    assert names.cxx_parts(text) == parts
