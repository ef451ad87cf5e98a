"""What ``--machine FILE`` takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counteroof.errors import BadInput, MachineFileError
from counteroof.machine import file, replacement, store
from counteroof.machine.model import Machine, Prefetch, Stores, Tlb
from tests import factories

SKYLAKE = """
name = "Skylake Gold 6148"

[[cache]]
level = 1
size = "32 KiB"
ways = 8

[[cache]]
level = 2
bytes = 1048576
ways = 16

[[cache]]
level = 3
size = "27.5 MiB"
ways = 11
shared_by = 20
fill = "victim"
"""


def load(tmp_path: Path, text: str) -> Machine:
    path = tmp_path / "machine.toml"
    path.write_text(text)
    return file.load(path, factories.machine())


def mistakes(tmp_path: Path, text: str) -> str:
    with pytest.raises(MachineFileError) as caught:
        load(tmp_path, text)
    return str(caught.value)


def test_caches_of_another_machine_with_times_of_this_one(tmp_path: Path) -> None:
    machine = load(tmp_path, SKYLAKE)
    found = [(c.name, c.bytes, c.ways, c.line_bytes, c.shared_by, c.fill, c.hashed) for c in machine.caches]
    assert found == [
        ("L1", 32 << 10, 8, 64, 1, "non-inclusive", False),
        ("L2", 1 << 20, 16, 64, 1, "non-inclusive", False),
        ("L3", 28160 << 10, 11, 64, 20, "victim", True),
    ]
    assert machine.ceilings == factories.machine().ceilings
    assert all(cache.source.startswith(str(tmp_path / "machine.toml")) for cache in machine.caches)
    assert any("caches are those of Skylake Gold 6148" in note for note in machine.notes)


def test_what_a_file_leaves_out_is_said_to_be_assumed(tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    machine = load(tmp_path, SKYLAKE)
    assert [cache.source for cache in machine.caches] == [
        str(path),
        f"{path} (L2: fill assumed)",
        f"{path} (L3: index and replacement assumed)",
    ]
    said = f"{path} says nothing of stores"
    assert any(note.startswith(said) for note in machine.notes)
    told = SKYLAKE.replace("fill =", "hashed = true\npolicy = 'random'\nfill =")
    told = told.replace("ways = 16", "ways = 16\nfill = 'inclusive'") + "[stores]\nevasion = 'none'\n"
    machine = load(tmp_path, told)
    assert {cache.source for cache in machine.caches} == {str(path)}
    assert not any(note.startswith(said) for note in machine.notes)


def test_the_same_keys_in_json(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"cache": [{"level": 1, "bytes": 65536, "ways": 4}]}))
    (cache,) = file.load(path, factories.machine()).caches
    assert (cache.name, cache.bytes) == ("L1", 65536)


def test_a_machine_file_with_ceilings_is_taken_whole(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    store.save(factories.machine(), path)
    assert file.load(path) == factories.machine()


def test_without_a_machine_at_hand_this_one_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(SKYLAKE)
    assert file.load(path).caches[2].bytes == 28160 << 10


def test_all_mistakes_are_reported(tmp_path: Path) -> None:
    text = mistakes(
        tmp_path,
        """
        name = 5
        color = "red"
        [[cache]]
        level = 1
        size = "32 kB"
        ways = "8"
        [[cache]]
        level = true
        size = "1 MiB"
        bytes = 5
        ways = 16
        fill = "exclusive"
        hash = true
        """,
    )
    for part in (
        "machine.toml.color: found a key nobody knows; expected one of name, line_bytes, cache",
        "machine.toml.name: found 5; expected a string",
        "cache[0].size: found '32 kB'; expected a size such as",
        'cache[0].ways: found "8"; expected an integer',
        "cache[1].level: found true; expected an integer",
        "cache[1]: found both size and bytes",
        "cache[1].fill: found 'exclusive'; expected one of 'inclusive'",
        "cache[1].hash: found a key nobody knows",
    ):
        assert part in text
    assert len(text.splitlines()) == 8


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("", "cache: found nothing; expected a list of caches"),
        ("cache = []", "cache: found a list of 0"),
        ("cache = [5]", "cache[0]: found 5; expected a table"),
        ("[[cache]]\nlevel = 1\nways = 8", "found neither size nor bytes"),
        ("[[cache]]\nsize = '32K'\nways = 8", "cache[0].level: found nothing"),
        ("[[cache]]\nlevel = 2\nsize = '32K'\nways = 8", "found 'L2'; expected 'L1', levels in order"),
        ("[[cache]]\nlevel = 1\nsize = '32K'\nways = 7", "expected a multiple of ways x line size (7 x 64"),
        ("[[cache]]\nlevel = 1\nbytes = -64\nways = 1", "bytes: found -64; expected at least 1"),
        ("[[cache]]\nlevel = 1\nsize = '32K'\nways = 8\nfill = 'victim'", "found 'victim'; expected another"),
        ("line_bytes = 0\n[[cache]]\nlevel = 1\nbytes = 64\nways = 1", "line_bytes: found 0"),
        (
            "[[cache]]\nlevel = 1\nsize = '32K'\nways = 8\n[[cache]]\nlevel = 1\nsize = '32K'\nways = 8",
            "cache[1].level: found 1 again; expected each level once",
        ),
    ],
)
def test_what_cannot_be_a_cache(tmp_path: Path, entries: str, message: str) -> None:
    assert message in mistakes(tmp_path, entries)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        file.load(tmp_path / "none.toml")
    path = tmp_path / "bad.toml"
    path.write_text("= 5")
    with pytest.raises(BadInput, match="neither JSON nor TOML"):
        file.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read"):
        file.load(path)
    path.write_text("{nothing")
    with pytest.raises(BadInput, match="is not JSON"):
        file.load(path)


def test_a_policy_is_a_name_or_a_table(tmp_path: Path) -> None:
    machine = load(tmp_path, SKYLAKE + 'policy = { name = "qlru", near = 0.35 }\n')
    assert [replacement.text(cache.policy) for cache in machine.caches] == ["lru", "lru", "qlru near=0.35"]
    assert load(tmp_path, SKYLAKE + 'policy = "random"\n').caches[2].policy.kind == "random"


def test_a_policy_that_cannot_be_is_named(tmp_path: Path) -> None:
    assert "cache[2].policy: found 'fifo'; expected one of lru," in mistakes(
        tmp_path, SKYLAKE + 'policy = "fifo"\n'
    )
    assert "cache[2].ways: found 11; expected a power of two" in mistakes(
        tmp_path, SKYLAKE + 'policy = "plru"\n'
    )
    leaders = 'policy = { name = "drrip", leaders = 30000 }\n'
    assert "cache[2].policy.leaders: found 30000; expected at most half" in mistakes(
        tmp_path, SKYLAKE + leaders
    )


def test_stores_are_as_on_most_processors_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    plain = load(tmp_path, SKYLAKE).stores
    assert (plain.evasion, plain.evaded, plain.partial) == ("none", 0.0, "read")
    assert plain.source.endswith("machine.toml says nothing of stores")


@pytest.mark.parametrize(
    ("table", "stores"),
    [
        ("", ("none", 0.0, "read")),
        ("partial = 'masked'", ("none", 0.0, "masked")),
        ("evasion = 'always'", ("always", 1.0, "read")),
        ("evasion = 'under load'", ("under load", 0.0, "read")),
        ("evasion = 'under load'\nevaded = 0.4", ("under load", 0.4, "read")),
        ("evasion = 'always'\nevaded = 0", ("always", 0.0, "read")),
    ],
)
def test_what_stores_cost(tmp_path: Path, table: str, stores: tuple[str, float, str]) -> None:
    found = load(tmp_path, f"{SKYLAKE}[stores]\n{table}\n").stores
    assert (found.evasion, found.evaded, found.partial) == stores
    kept = tmp_path / "kept.json"
    store.save(load(tmp_path, f"{SKYLAKE}[stores]\n{table}\n"), kept)
    assert file.load(kept).stores == found


def test_mistakes_about_stores_stand_beside_those_about_caches(tmp_path: Path) -> None:
    text = mistakes(
        tmp_path,
        SKYLAKE.replace("ways = 8", "ways = 7")
        + "[stores]\nevasion = 'often'\npartial = 5\nevaded = 2\nshare = 1\n",
    )
    for part in (
        "machine.toml: stores.share: found a key nobody knows; expected one of evasion, evaded, partial",
        "stores.evasion: found 'often'; expected one of 'none', 'under load', 'always'",
        "stores.partial: found 5; expected a string",
        "stores.evaded: found 2; expected a share of 0 to 1",
        "expected a multiple of ways x line size (7 x 64",
    ):
        assert part in text
    assert len(text.splitlines()) == 5


def test_no_share_is_spared_where_nothing_is(tmp_path: Path) -> None:
    assert "stores.evaded: found 0.5; expected 0, or an evasion of" in mistakes(
        tmp_path, f"{SKYLAKE}[stores]\nevaded = 0.5\n"
    )
    assert "stores: found 5; expected a table" in mistakes(tmp_path, f"stores = 5\n{SKYLAKE}")
    with pytest.raises(ValueError, match="evaded 2 is a share"):
        Stores("always", 2)
    with pytest.raises(ValueError, match="with evasion 'none' no read is spared"):
        Stores("none", 0.5)


TLBS = """
[[tlb]]
level = 1
entries = 64
ways = 4
pages = ["4 KiB"]

[[tlb]]
level = 2
entries = 1536
ways = 12
pages = ["4 KiB", "2 MiB"]
hashed = true
"""


def test_tlbs_of_another_machine_are_its_own_or_unknown(tmp_path: Path) -> None:
    source = str(tmp_path / "machine.toml")
    assert load(tmp_path, SKYLAKE).tlbs == ()  # and not those of this machine
    assert load(tmp_path, SKYLAKE + TLBS).tlbs == (
        Tlb(1, 64, 4, ("4 KiB",), False, source),
        Tlb(2, 1536, 12, ("4 KiB", "2 MiB"), True, source),
    )


def test_mistakes_in_tlbs_are_told(tmp_path: Path) -> None:
    assert "tlb[0].level: found nothing" in mistakes(tmp_path, SKYLAKE + "[[tlb]]\nentries = 3")
    twice = mistakes(tmp_path, SKYLAKE + TLBS + TLBS.replace("level = 2", "level = 1"))
    assert "tlb[2].pages: found level 1 has more than one TLB for pages of 4 KiB" in twice
    odd = mistakes(tmp_path, SKYLAKE + TLBS.replace("ways = 12", "ways = 13"))
    assert "tlb[1]: found 1536 entries of a TLB are not a whole number of sets of 13 ways" in odd


def test_prefetchers_are_off_unless_the_file_has_them(tmp_path: Path) -> None:
    assert load(tmp_path, SKYLAKE).prefetch == Prefetch()
    table = "[prefetch]\nadjacent = true\nstream = true\ndistance = 8\ndegree = 1\nstreams = 16\n"
    found = load(tmp_path, SKYLAKE + table)
    assert found.prefetch == Prefetch(True, True, 8, 1, 16)
    kept = tmp_path / "kept.json"
    store.save(found, kept)
    assert file.load(kept).prefetch == found.prefetch


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("adjacent = 1", "prefetch.adjacent: found 1"),
        ("stride = true", "prefetch.stride"),
        ("stream = true\ndistance = 0", "distance 0 is not a number of 1 to 4096"),
    ],
)
def test_mistakes_about_prefetchers(tmp_path: Path, table: str, message: str) -> None:
    assert message in mistakes(tmp_path, f"{SKYLAKE}[prefetch]\n{table}\n")


def test_prefetchers_need_a_second_level(tmp_path: Path) -> None:
    alone = "[[cache]]\nlevel = 1\nsize = '32 KiB'\nways = 8\n[prefetch]\nstream = true\n"
    assert "prefetch: found one cache alone; expected two or more" in mistakes(tmp_path, alone)
