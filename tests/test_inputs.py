"""What a user named becomes kernel cases, or one clear refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof import inputs
from counteroof.errors import BadInput, SpecError
from counteroof.formula import Formula
from counteroof.spec import KernelSpec, LibrarySpec, ScalarArg, array
from tests.compiled import needs, shared

LIBRARY = LibrarySpec(path="libm.so.6")


def spec(name: str, **params: int) -> KernelSpec:
    return KernelSpec(
        name=name,
        library=LIBRARY,
        symbol=name,
        params={key: (value,) for key, value in params.items()},
        small=dict.fromkeys(params, 2),
        args=(*(array(f"a_{key}", "f64", key) for key in params), ScalarArg("s", Formula("1"))),
    )


def toml(name: str) -> str:
    return f"[library]\npath = 'libm.so.6'\n[[kernel]]\nname = '{name}'\nargs = {{ x = 2.0 }}\n"


def test_kernels_of_several_specs_come_in_order(tmp_path: Path) -> None:
    for name in ("sqrt", "exp"):
        (tmp_path / f"{name}.toml").write_text(toml(name))
    found = inputs.kernels_from([tmp_path / "sqrt.toml", tmp_path / "exp.toml"])
    assert [kernel.name for kernel in found.kernels] == ["sqrt", "exp"]
    assert found.skipped == ()


def test_mistakes_of_several_specs_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(toml("sqrt") + "threads = 0")
    (tmp_path / "b.toml").write_text(toml("exp") + "cache = 'hot'")
    with pytest.raises(SpecError) as error:
        inputs.kernels_from([tmp_path / "a.toml", tmp_path / "b.toml"])
    assert [Path(problem.where.partition(":")[0]).name for problem in error.value.problems] == [
        "a.toml",
        "b.toml",
    ]


def test_one_name_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(toml("sqrt"))
    with pytest.raises(SpecError, match="2 kernels named 'sqrt'"):
        inputs.kernels_from([tmp_path / "a.toml", tmp_path / "b.toml"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.toml", None, "there is no such file"),
        ("notes.txt", b"hello", "neither a spec"),
        ("empty", b"", "neither a spec"),
    ],
)
def test_a_file_of_no_known_kind_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message):
        inputs.kernels_from([tmp_path / name])


@needs("gcc")
def test_a_bare_name_is_found_as_the_dynamic_loader_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "void f(double *x, long n) { for (long i = 0; i < n; i++) x[i] = 1; }"
    shared(tmp_path, code, "-g", name="libonlyhere.so.7")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = inputs.kernels_from([inputs.located("libonlyhere.so.7")])
    assert [kernel.name for kernel in found.kernels] == ["f"]
    assert found.kernels[0].library.path == str(tmp_path / "libonlyhere.so.7")


def test_a_bare_name_that_the_dynamic_loader_does_not_know_is_refused() -> None:
    with pytest.raises(BadInput, match=r"libnothere.so.9: no such file, and the dynamic loader knows no lib"):
        inputs.located("libnothere.so.9")
    assert inputs.located("./libm.so.6") == Path("libm.so.6")  # not the loader's, though it has one
    assert inputs.located("spec.toml") == Path("spec.toml")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a folder"):
        inputs.kernels_from([tmp_path])


def test_patterns_select_by_name() -> None:
    kernels = [spec("copy"), spec("copy_nt"), spec("triad")]
    assert inputs.select(kernels, []) == tuple(kernels)
    assert [k.name for k in inputs.select(kernels, ["copy*"])] == ["copy", "copy_nt"]
    assert [k.name for k in inputs.select(kernels, ["triad", "copy"])] == ["copy", "triad"]
    with pytest.raises(
        BadInput, match=r"no kernel matches 'traid' \(did you mean 'triad'\?\); the kernels are: copy"
    ):
        inputs.select(kernels, ["traid"])


def test_a_setting_reaches_the_kernels_that_have_the_parameter() -> None:
    cases = inputs.cases_of([spec("f", n=10), spec("g", m=20)], overrides={"n": (5, 6)})
    assert [case.label for case in cases] == ["f[n=5]", "f[n=6]", "g"]


def test_a_setting_no_kernel_knows_is_refused() -> None:
    with pytest.raises(BadInput, match="no kernel has a parameter 'rows'; there are: m, n"):
        inputs.cases_of([spec("f", n=10), spec("g", m=20)], overrides={"rows": (5,)})


def test_impossible_sizes_of_all_kernels_are_reported_together() -> None:
    with pytest.raises(SpecError) as error:
        inputs.cases_of([spec("f", n=10), spec("g", n=20)], overrides={"n": (0,)})
    assert [problem.where for problem in error.value.problems] == [
        "kernel f.args.a_n.shape",
        "kernel g.args.a_n.shape",
    ]


def test_functions_passed_over_for_one_reason_share_a_line() -> None:
    many = [inputs.Skipped("libfoo.so", f"f{number}", "is variadic") for number in range(7)]
    assert inputs.skipped_in_words([*many, inputs.Skipped("libfoo.so", "g", "no type")]) == [
        "skipped f0, f1, f2, f3, f4 and 2 others of libfoo.so: is variadic",
        "skipped g of libfoo.so: no type",
    ]


def test_size_and_threads_go_to_every_kernel() -> None:
    (case,) = inputs.cases_of([spec("f", n=10)], "small", threads=2)
    assert case.params == {"n": 2}
    assert case.spec.threads == 2


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("n=1000", ("n", (1000,))),
        ("n = 1_000", ("n", (1000,))),
        ("n=1,2", ("n", (1, 2))),
        ("x=2.5e3", ("x", (2500.0,))),
        ("n=-3", ("n", (-3,))),
    ],
)
def test_settings_are_numbers(text: str, setting: tuple[str, tuple[float, ...]]) -> None:
    assert inputs.parse_setting(text) == setting


@pytest.mark.parametrize("text", ["n", "=3", "n=", "n=x", "n=1,", "n=inf", "n=nan", "n=1e999", "n=1;2"])
def test_a_malformed_setting_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"such as|expected a number"):
        inputs.parse_setting(text)
