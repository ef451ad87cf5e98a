"""The results file: exact round trip, all mistakes at once, nothing half written, no NaN."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counteroof.count.base import Count, InstructionTraffic
from counteroof.diagnose.base import Finding
from counteroof.errors import BadInput, ResultsError
from counteroof.reconcile import LedgerLine
from counteroof.results import (
    Chosen,
    KernelResult,
    Results,
    Seconds,
    SourceLine,
    from_json,
    load,
    save,
    to_json,
)

from .factories import failed, measurement, result, results, traffic, triad

FULL = results(
    result(
        lines=(
            SourceLine("triad.c", 7, 100, 40, 640),
            SourceLine("libtriad.so", None, 3, 0, 64, 0, 64, "helper"),
        ),
        instruction_table=(
            InstructionTraffic(
                library="libtriad.so", address=0x1120, symbol="triad", file="triad.c", line=7, text="ret"
            ),
            InstructionTraffic(library="(unattributed)", address=None, dram_read_bytes=64),
        ),
        findings=(Finding("write-allocate", "hint", "a is read first", "non-temporal stores", 1.33),),
    ),
    result("dot", seconds=0.01, declared=None, precision="f32"),
    result("silent", counted=measurement(None), seconds=None),
    failed(),
)


def test_round_trip_is_exact(tmp_path: Path) -> None:
    save(FULL, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == FULL


def test_results_travel_between_processes() -> None:
    assert pickle.loads(pickle.dumps(FULL)) == FULL


def test_the_file_has_the_schema_of_the_design(tmp_path: Path) -> None:
    save(FULL, tmp_path / "results.json")
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["schema"] == "counteroof.results/1"
    assert set(data) == {"schema", "created", "counteroof", "machine", "kernels", "roof_samples"}
    kernel = data["kernels"][0]
    assert set(kernel) >= {
        *("name", "library", "symbol", "params", "threads", "precision", "cache", "seconds", "declared"),
        *("counters", "chosen", "placement", "ledger", "arrays", "lines", "findings", "error"),
    }
    assert kernel["params"] == {"n": 20_000_000}
    assert set(kernel["seconds"]) == {"median", "samples"}
    assert kernel["declared"]["flops"] == 40_000_000
    assert kernel["declared"]["bytes"] == 480_000_000
    counter = kernel["counters"]["instrument"]
    assert set(counter) >= {
        *("flops", "issued_flops", "instructions", "flops_by", "l1_l2_bytes", "l2_l3_bytes"),
        *("dram_read_bytes", "dram_write_bytes", "slowdown", "native_calls", "flops_by_thread"),
    }
    assert counter["dram_read_bytes"] == {
        "value": 480_000_000,
        "status": "modelled",
        "source": "cache model, LRU, 32 MiB L3",
        "reason": None,
    }
    assert counter["l1_l2_bytes"]["value"] is None
    assert counter["l1_l2_bytes"]["reason"]
    assert set(counter["flops_by"][0]) >= {"precision", "width", "op", "flops"}
    assert kernel["chosen"] == {"flops": "instrument", "bytes": "instrument"}
    assert set(kernel["placement"]) >= {
        *("intensity", "declared_intensity", "flops_per_second", "attainable", "fraction", "bound"),
        *("ceiling", "roof"),
    }
    assert kernel["ledger"][0] == {"cause": "declared", "bytes": 480_000_000, "array": None}
    assert kernel["ledger"][1] == {"cause": "write-allocate", "bytes": 160_000_000, "array": "a"}
    assert kernel["ledger"][-1] == {"cause": "actual", "bytes": 640_000_000, "array": None}
    assert set(kernel["arrays"][0]) >= {
        *("name", "bytes", "dram_read_bytes", "dram_write_bytes", "line_utilisation", "refetches"),
    }
    assert set(kernel["lines"][0]) >= {"file", "line", "instructions", "flops", "dram_bytes"}
    assert set(kernel["findings"][0]) == {
        *("rule", "severity", "message", "try", "gain", "attainable", "evidence")
    }
    assert kernel["error"] is None
    assert data["kernels"][1]["declared"] is None
    assert data["kernels"][3]["error"] == {"kind": "crash", "message": "SIGSEGV"}


def test_refetches_are_lines() -> None:
    again = traffic("x", read=6400, unique_read_bytes=640)
    assert result(counted=measurement(1, (again,))).arrays[0].refetches == 90


def test_the_chosen_counters_give_the_numbers() -> None:
    kernel = result()
    assert kernel.flops == Count(40_000_000, "instrumented", "engine")
    assert (kernel.dram_bytes.value, kernel.dram_bytes.status) == (640_000_000, "modelled")
    missing = result(chosen=Chosen(None, None), counted=measurement(None))
    assert missing.flops.value is None
    assert missing.flops.reason == "the engine was not run"
    assert missing.dram_bytes.reason == "the cache model was not run"
    assert failed().flops.reason == "SIGSEGV"


def mistaken(change: Any) -> list[str]:
    data = copy.deepcopy(to_json(FULL))
    change(data)
    with pytest.raises(ResultsError) as caught:
        from_json(data, "r.json")
    return [str(problem) for problem in caught.value.problems]


def test_all_mistakes_are_reported_at_once() -> None:
    def change(data: dict[str, Any]) -> None:
        del data["created"]
        data["machine"]["logical_cpus"] = "two"
        data["kernels"][0]["counters"]["instrument"]["flops"] = {
            "value": None,
            "status": "counted",
            "source": "",
        }
        data["kernels"][1]["placement"]["bound"] = "l4"
        data["kernels"][2]["threads"] = True
        data["kernels"][3]["colour"] = "red"

    problems = mistaken(change)
    assert [problem.split(": found")[0] for problem in problems] == [
        "r.json: created",
        "r.json: machine.logical_cpus",
        "r.json: kernels[0].counters.instrument.flops",
        "r.json: kernels[1].placement.bound",
        "r.json: kernels[2].threads",
        "r.json: kernels[3].colour",
    ]
    assert "a Count has a value or the status 'unavailable'" in problems[2]


def test_a_ledger_that_does_not_add_up_is_refused() -> None:
    def change(data: dict[str, Any]) -> None:
        data["kernels"][0]["ledger"][1]["bytes"] -= 1

    assert mistaken(change) == [
        "r.json: kernels[0]: found ledger: the lines before 'modelled' add up to 639999999, "
        "but it says 640000000; expected a consistent KernelResult"
    ]


def test_a_chosen_counter_must_have_run() -> None:
    def change(data: dict[str, Any]) -> None:
        data["kernels"][0]["chosen"]["bytes"] = "perf"

    assert "chosen counter 'perf' is not among ['instrument']" in mistaken(change)[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "r.json: found a list of 0; expected an object"),
        ({}, 'r.json: schema: found nothing; expected "counteroof.results/1"'),
        (
            {"schema": "counteroof.results/2"},
            'r.json: schema: found "counteroof.results/2"; expected "counteroof.results/1"',
        ),
        (
            {"schema": "counteroof.results/1", "kernels": [3]},
            "r.json: kernels[0]: found 3; expected an object",
        ),
    ],
)
def test_what_is_no_results_file_is_said_plainly(data: object, message: str) -> None:
    with pytest.raises(ResultsError) as caught:
        from_json(data, "r.json")
    assert message in str(caught.value).splitlines()


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_never_written(tmp_path: Path, number: float) -> None:
    path = tmp_path / "results.json"
    save(FULL, path)
    before = path.read_bytes()
    spoiled = replace(FULL, kernels=(result(seconds=None), result(seconds=number)))
    with pytest.raises(ValueError, match=r"kernels\[1\]\.seconds\.median"):
        save(spoiled, path)
    assert path.read_bytes() == before


def test_a_file_with_nan_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(FULL, path)
    path.write_text(path.read_text().replace("640000000", "NaN", 1))
    with pytest.raises(BadInput, match="NaN is not JSON"):
        load(path)


def test_names_of_any_kind_survive(tmp_path: Path) -> None:
    odd = result('a "b" \\ <c> | \u00b5\u20ac \udcff\x1b[31m')
    save(results(odd), tmp_path / "r.json")
    assert load(tmp_path / "r.json").kernels[0] == odd


def test_failed_kernels_are_kept_apart() -> None:
    assert [kernel.name for kernel in FULL.failed] == ["spoiled"]


def test_the_median_is_that_of_the_samples() -> None:
    assert Seconds.of((3.0, 1.0, 2.0, 10.0)) == Seconds(2.5, (3.0, 1.0, 2.0, 10.0))


def test_a_result_whose_ledger_is_wrong_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="begins with"):
        result(ledger=(LedgerLine("write-allocate", 1),))


finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@given(
    st.dictionaries(st.text(), finite | st.integers(), max_size=3),
    st.lists(positive, min_size=1, max_size=5),
    st.text(),
    finite,
)
def test_every_number_survives_a_round_trip(
    params: dict[str, float | int], samples: list[float], name: str, value: float
) -> None:
    counted = triad(instructions=Count(value, "scaled", name))
    kernel: KernelResult = result(name, params=params, seconds=None, counted=counted)
    kernel = replace(kernel, seconds=Seconds(samples[0], tuple(samples)))
    whole: Results = results(kernel)
    assert from_json(json.loads(json.dumps(to_json(whole)))) == whole


@pytest.mark.parametrize("samples", [[], [1.0, 0.0], [-1.0]])
def test_a_time_without_positive_samples_is_refused(samples: list[float]) -> None:
    data = to_json(results(result()))
    data["kernels"][0]["seconds"]["samples"] = samples
    with pytest.raises(ResultsError, match=r"kernels\[0\].seconds: found seconds need at least one sample"):
        from_json(data)
