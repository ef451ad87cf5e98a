"""Tests of the script that sets the cache model against counted stencil traffic, on grids of seconds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from counteroof.errors import BadInput
from counteroof.instrument.engine import _cpu_flags
from counteroof.machine.model import CacheLevel
from counteroof.machine.policy import files as files_of_policies
from counteroof.machine.replacement import text
from scripts import validate_traffic as script
from scripts.validate_traffic import Options, Stencil

HEADER = (
    "machine,radius,shape,coefficients,weighting,dtype,n,l1l2_load,l1l2_evict,l2l3_load,l2l3_evict,"
    "mem_load,mem_evict,simulator_mem_load,simulator_mem_evict"
)
MACHINES = """
[small]
l1 = { bytes = 32768, ways = 8 }
l2 = { bytes = 131072, ways = 8 }
l3 = { bytes = 262144, ways = 16, slices = 2, fill = "victim" }
"""
KIB = 1 << 10


def caches(last_bytes: int, fill: str = "inclusive", hashed: bool = False) -> tuple[CacheLevel, ...]:
    return (
        CacheLevel("L1", 32 * KIB, 8, 64, 1, "non-inclusive", False, "test"),
        CacheLevel("L2", 64 * KIB, 8, 64, 1, "non-inclusive", False, "test"),
        CacheLevel("L3", last_bytes, 16, 64, 1, fill, hashed, "test"),  # type: ignore[arg-type]
    )


def files(folder: Path, *rows: str, header: str = HEADER, machines: str = MACHINES) -> list[str]:
    table, caches_file = folder / "traffic.csv", folder / "machines.toml"
    table.write_text("\n".join([header, *rows]) + "\n")
    caches_file.write_text(machines)
    return [str(table), "--machines", str(caches_file)]


class TestStencil:
    def test_a_star_touches_the_axes_alone_and_a_box_all(self) -> None:
        star = Stencil(2, "star", "constant", "heterogeneous", "f64", 20)
        assert len(star.points) == 1 + 6 * 2
        assert (0, 0, -2) in star.points
        assert (0, 1, 1) not in star.points
        assert len(Stencil(2, "box", "constant", "heterogeneous", "f64", 20).points) == 5**3

    def test_points_come_in_the_order_of_their_addresses(self) -> None:
        stencil = Stencil(3, "star", "constant", "heterogeneous", "f32", 20)
        *loads, store = script.addresses(stencil, script.places(stencil))
        assert loads == sorted(loads)
        assert loads[-1] - loads[0] == 2 * 3 * 20 * 20 * 4
        assert store > loads[-1]

    @pytest.mark.parametrize(
        ("coefficients", "weighting", "star", "box"),
        [
            ("constant", "heterogeneous", 0, 0),
            ("variable", "homogeneous", 1, 1),
            ("variable", "heterogeneous", 13, 27),
            ("variable", "isotropic", 3, 4),
            ("variable", "point-symmetric", 7, 14),
        ],
    )
    def test_variable_coefficients_are_as_many_arrays_as_points_that_weigh_differently(
        self, coefficients: str, weighting: str, star: int, box: int
    ) -> None:
        """A star of radius 2 and a box of radius 1, as INSPECT has them: W[3], W[4] and W[14]."""
        for radius, shape, points, arrays in ((2, "star", 13, star), (1, "box", 27, box)):
            stencil = Stencil(radius, shape, coefficients, weighting, "f64", 20)
            found = script.addresses(stencil, script.places(stencil))
            assert len(found) == points + arrays + 1
            assert len(set(found)) == len(found)
            assert stencil.coefficient_arrays == arrays

    def test_a_coefficient_is_read_at_the_first_of_its_points(self) -> None:
        stencil = Stencil(1, "star", "variable", "point-symmetric", "f64", 20)
        assert stencil.loaded == [0, 1, 2, 3, None, None, None]


class TestSteadyState:
    def test_grids_within_the_last_level_move_nothing_to_and_from_memory(self) -> None:
        stencil = Stencil(1, "star", "constant", "heterogeneous", "f64", 20)
        model = script.run(caches(256 * KIB), stencil, "AVX2", Options())
        assert script.per_update(model.totals(), stencil.updates)["mem"] == 0

    def test_large_grids_are_read_once_and_written_once_a_sweep(self) -> None:
        """Three planes of 32 KiB stay in the last level, the grids of 2 MiB do not."""
        n = 64
        stencil = Stencil(1, "star", "constant", "heterogeneous", "f64", n)
        model = script.run(caches(256 * KIB), stencil, "AVX2", Options())
        a, b, _ = model.arrays()
        inner_rows, lines_a_row = (n - 2) ** 2, n * 8 // 64
        assert a.dram_read_bytes == (inner_rows + 4 * (n - 2)) * lines_a_row * 64
        assert a.dram_write_bytes == 0
        assert b.dram_read_bytes == b.dram_write_bytes == inner_rows * lines_a_row * 64
        assert b.write_allocate_bytes == b.dram_read_bytes

    def test_planes_that_do_not_stay_are_read_again(self) -> None:
        """Of five planes of a radius 2 stencil, a last level of less than one keeps none until the next."""
        stencil = Stencil(2, "star", "constant", "heterogeneous", "f64", 104)
        model = script.run(caches(64 * KIB), stencil, "AVX2", Options())
        reads_of_a = model.arrays()[0].dram_read_bytes / stencil.updates
        assert 5 * 8 < reads_of_a < 5.5 * 8


@pytest.mark.x86_64
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.skipif("avx2" not in _cpu_flags(), reason="needs a processor with AVX2")
@pytest.mark.parametrize("fill", ["inclusive", "victim"])
@pytest.mark.parametrize(
    ("stencil", "isa"),
    [
        (Stencil(1, "star", "constant", "heterogeneous", "f64", 37), "AVX"),
        (Stencil(3, "star", "constant", "heterogeneous", "f32", 42), "AVX2"),
        (Stencil(1, "box", "variable", "homogeneous", "f32", 42), "AVX2"),
        (Stencil(1, "star", "variable", "heterogeneous", "f64", 26), "AVX2"),
        (Stencil(2, "star", "variable", "point-symmetric", "f32", 26), "AVX2"),
    ],
    ids=lambda value: f"{value.shape}-{value.coefficients}-{value.dtype}" if value != str(value) else value,
)
def test_the_compiled_stencil_under_the_engine_moves_the_same(stencil: Stencil, isa: str, fill: str) -> None:
    """But for the line or two of the stack that the call itself needs, and a line each may displace."""
    levels = caches(256 * KIB, fill, hashed=True)
    ours = script.run(levels, stencil, isa, Options())
    compiled = script.run(levels, stencil, isa, Options(engine=True))
    stack = compiled.arrays()[-1]
    assert stack.touched_write_bytes + stack.touched_read_bytes <= 2 * 64
    assert ours.arrays()[-1].touched_write_bytes == 0
    for array, expected in zip(compiled.arrays()[:-1], ours.arrays(), strict=False):
        assert array.touched_bytes == expected.touched_bytes
        assert abs(array.dram_read_bytes - expected.dram_read_bytes) <= 2 * 64
        assert abs(array.dram_write_bytes - expected.dram_write_bytes) <= 2 * 64
    for level, expected_level in zip(compiled.totals().levels, ours.totals().levels, strict=True):
        assert expected_level.misses > 1000
        assert abs(level.misses - expected_level.misses) <= 4
        assert abs(level.up_bytes - expected_level.up_bytes) <= 4 * 64
        assert abs(level.down_bytes - expected_level.down_bytes) <= 4 * 64


class TestPolicies:
    """How the last level of a machine replaces lines."""

    @pytest.mark.parametrize(
        ("name", "policy"),
        [
            ("ivybridge_e5_2660v2", "qlru"),
            ("HaswellEP_E5-2695v3_CoD", "qlru"),
            ("skylake_gold_6148", "random"),
            ("CascadelakeSP_Gold-6248", "random"),
            ("sandy_bridge_e5_2680", "mru"),
            ("zen2_epyc_7452", "lru"),
            ("small", "lru"),
        ],
    )
    def test_the_name_tells_the_microarchitecture(self, tmp_path: Path, name: str, policy: str) -> None:
        path = Path(files(tmp_path, machines=MACHINES.replace("small", f'"{name}"'))[2])
        levels = script.read_machines(path)[name]
        assert [text(level.policy) for level in levels] == ["lru", "lru", policy]

    def test_the_file_may_say_it_instead(self, tmp_path: Path) -> None:
        entry = MACHINES.replace("[small]", '[small]\nmicroarchitecture = "Haswell"')
        own = MACHINES.replace("slices = 2", 'slices = 2, policy = { name = "srrip", near = 0.5 }')
        for machines, policy in ((entry, "qlru"), (own, "srrip near=0.5")):
            path = Path(files(tmp_path, machines=machines)[2])
            assert text(script.read_machines(path)["small"][2].policy) == policy

    def test_every_name_leads_to_an_entry(self) -> None:
        entries = {one.name for file in files_of_policies().values() for one in file.microarchitecture}
        assert set(script.MICROARCHITECTURES.values()) <= entries
        starts = list(script.MICROARCHITECTURES)
        for number, start in enumerate(starts):  # the first that fits is taken
            assert not any(start.startswith(before) for before in starts[:number])


class TestLeaveOneOut:
    def test_each_row_is_judged_by_the_share_that_is_best_for_the_others(self) -> None:
        """Counted 10 each; by the share 0.5 the rows are off by 1, 1 and 8, by 1.0 by 2, 2 and 0."""
        row = script.Row(
            "here", "m", "AVX2", Stencil(1, "star", "constant", "", "f64", 20), {"mem": 10.0}, {}
        )
        found = script.judge("m", "qlru", [row] * 3, {0.5: [11.0, 9.0, 18.0], 1.0: [12.0, 8.0, 10.0]})
        assert found.chosen == {"0.5": 1, "1": 2}  # only without the last row is 0.5 better
        assert (found.model.median, found.model.mean) == (20.0, 40.0)
        assert found.published is None

    def test_a_machine_whose_policy_has_no_share_has_nothing_to_choose(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = [TestCommand.ROW.format(n=n) for n in (24, 28)]
        assert script.main([*files(tmp_path, *rows), "--leave-one-out", "--json", "--quiet"]) == 0
        ((found,),) = [json.loads(capsys.readouterr().out)]
        assert (found["machine"], found["policy"], found["chosen"]) == ("small", "lru", {"1": 2})

    def test_the_constant_is_found_again_where_it_matters(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What is said to be counted is what the model has with a share of 0.4: grids of 3 to 5 times L3."""
        machines = MACHINES.replace("slices = 2", 'policy = { name = "qlru", near = 0.4 }')
        path = Path(files(tmp_path, machines=machines)[2])
        caches = script.read_machines(path)["small"]
        rows = []
        for n in (36, 39, 42):
            stencil = Stencil(1, "star", "constant", "heterogeneous", "f64", n)
            moved = script.per_update(
                script.run(caches, stencil, "AVX2", Options()).totals(), stencil.updates
            )
            rows.append(f"small,1,star,constant,heterogeneous,f64,{n},30,9,17,8,{moved['mem']},0,20,10")
        assert script.main([*files(tmp_path, *rows, machines=machines), "--leave-one-out", "--quiet"]) == 0
        said = capsys.readouterr().out
        assert "small: qlru near=0.4; chosen 0.4 (3 rows)" in said
        assert "0.0     0.0     0.0   published" in said

    def test_one_row_is_not_enough(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert script.main([*files(tmp_path, TestCommand.ROW.format(n=24)), "--leave-one-out"]) == 2
        assert "small: found 1 row(s) with 1 B or more; expected two" in capsys.readouterr().err


class TestErrors:
    def test_they_are_relative_to_what_was_counted(self) -> None:
        found = script.errors([(10.0, 11.0), (20.0, 18.0), (4.0, 4.0), (1.0, 3.0)])
        assert found is not None
        assert (found.rows, found.median, found.mean, found.percentile_90) == (4, 10.0, 55.0, 200.0)

    def test_rows_below_one_byte_an_update_do_not_count(self, tmp_path: Path) -> None:
        few, many = "0.5,0.4", "8.0,4.0"
        rows = [
            f"small,1,star,constant,heterogeneous,f64,{n},9,3,9,3,{counted},16,8"
            for n, counted in ((20, few), (30, many), (40, many))
        ]
        path = Path(files(tmp_path, *rows)[0])
        results = [script.Result(row, {"mem": 15.0}, 0.0) for row in script.read_rows(path)]
        ((machine, level, ours, theirs),) = script.summary(results)
        assert (machine, level) == ("small", "mem")
        assert (ours.rows, ours.median) == (2, 25.0)
        assert theirs is not None
        assert theirs.median == 100.0


class TestCommand:
    ROW = "small,1,star,constant,heterogeneous,f64,{n},30,9,17,8,16.5,8.5,20,10"

    def test_the_table_has_our_error_beside_the_published_simulators(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert script.main([*files(tmp_path, self.ROW.format(n=50)), "--quiet"]) == 0
        memory = next(line for line in capsys.readouterr().out.splitlines() if " memory " in line)
        machine, level, rows, median, mean, most, *theirs = memory.split()
        assert (machine, level, rows) == ("small", "memory", "1")
        assert median == mean == most
        assert 0 < float(median) < 10
        assert theirs == ["20.0", "20.0", "20.0"]

    def test_json_has_every_row_and_progress_goes_elsewhere(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = [self.ROW.format(n=n) for n in (20, 22, 24, 26, 28)]
        assert script.main([*files(tmp_path, *rows), "--json", "--rows", "2"]) == 0
        output = capsys.readouterr()
        found = json.loads(output.out)
        assert [row["n"] for row in found["rows"]] == [22, 26]
        assert found["rows"][0]["counted"] == {"l1l2": 39.0, "l2l3": 25.0, "mem": 25.0}
        assert found["rows"][0]["published"] == {"mem": 30.0}
        assert {error["level"] for error in found["errors_percent"]} == {"l1l2", "l2l3", "mem"}
        assert "[2/2] small radius 1 star n=26" in output.err

    def test_a_file_as_spreadsheets_save_it_is_read(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With a mark of the byte order, blanks behind commas and the line ends of other systems."""
        given = files(tmp_path, self.ROW.format(n=22))
        assert script.main([*given, "--json"]) == 0
        expected = json.loads(capsys.readouterr().out)["rows"][0]
        table = Path(given[0])
        text = table.read_text().replace(",", ", ").replace("\n", "\r\n")
        table.write_text("\ufeff" + text, encoding="utf-8", newline="")
        assert script.main([*given, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["rows"][0]
        assert {**found, "seconds": 0} == {**expected, "seconds": 0}

    @pytest.mark.parametrize(
        ("old", "new", "complaint"),
        [
            ("small,", "large,", "found machine 'large'; expected one of"),
            ("star", "ring", "found shape 'ring'; expected star or box"),
            ("f64", "f16", "found dtype 'f16'; expected f64 or f32"),
            ("constant,heterogeneous", "variable,lopsided", "found weighting 'lopsided'; expected heterogen"),
            (",40,", ",2,", "found n '2'; expected an integer from 3"),
            ("16.5", "lots", "found mem_load 'lots'; expected bytes an update"),
            ("16.5", "nan", "found mem_load 'nan'; expected bytes an update"),
        ],
    )
    def test_a_row_that_cannot_be_run_ends_with_one_line_and_code_2(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, complaint: str
    ) -> None:
        given = files(tmp_path, self.ROW.format(n=40).replace(old, new))
        assert script.main(given) == 2
        output = capsys.readouterr()
        assert output.err.startswith("error: ")
        assert f"traffic.csv:2: {complaint}" in output.err
        assert output.err.count("\n") == 1
        assert output.out == ""

    @pytest.mark.parametrize(
        ("old", "new", "complaint"),
        [
            ("ways = 16", "ways = 0", "[small] l3: found ways = 0; expected a whole number"),
            (
                '"victim"',
                '"exclusive"',
                "found fill = 'exclusive'; expected inclusive, non-inclusive, victim",
            ),
            ("l2 =", "l4 =", "expected l1, l2, ... without gaps"),
            ("[small]", "[small", "cannot be read as TOML"),
            ("slices", "slizes", "found slizes; expected bytes, ways, slices, fill, policy alone"),
            ("slices = 2", "policy = 'fifo'", "[small] l3.policy: found 'fifo'; expected one of lru,"),
            (
                "[small]\n",
                "[small]\nmicroarchitecture = 'Z9'\n",
                "found microarchitecture 'Z9'; expected one of",
            ),
        ],
    )
    def test_a_machine_that_cannot_be_modelled_is_named(
        self, tmp_path: Path, old: str, new: str, complaint: str
    ) -> None:
        path = Path(files(tmp_path, machines=MACHINES.replace(old, new))[2])
        with pytest.raises(BadInput) as caught:
            script.read_machines(path)
        assert complaint in str(caught.value)

    def test_a_missing_column_is_named(self, tmp_path: Path) -> None:
        path = Path(files(tmp_path, header=HEADER.replace("l2l3_evict", "other"))[0])
        with pytest.raises(BadInput, match="found no column l2l3_evict"):
            script.read_rows(path)
