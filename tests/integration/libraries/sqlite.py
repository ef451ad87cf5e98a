"""SQLite: a database in memory, filled, indexed and asked."""

from __future__ import annotations

import ctypes

from .work import ADDRESS, INT, Hook, load, work

ROW, DONE = 100, 101

FILL = b"""
create table item(id integer primary key, name text, price real, amount integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 600)
insert into item select i, 'item ' || (i * 7919 % 601), (i * 31 % 1000) / 7.0, i % 13 from n;
create index by_name on item(name);
create table shop(name text primary key, items text) without rowid;
insert into shop select 'shop ' || amount, group_concat(name) from item group by amount;
update item set price = price * 1.1 where amount > 6;
delete from item where id % 10 = 0;
"""
ASK = b"""
select a.name, a.price, b.name, round(sum(b.price * b.amount), 6), printf('%.3f', avg(b.price))
from item a join item b on b.amount = a.amount and b.name < a.name
where a.name like 'item 1%7' group by a.id order by a.name, 2 desc
"""


@work("SQLite", "sqlite3_open, exec, prepare, step, column_text, close")
def queries(hook: Hook) -> bytes:
    lib = load("libsqlite3-0", "libsqlite3.so.0")
    base, statement = ctypes.c_void_p(), ctypes.c_void_p()
    assert hook(lib, "sqlite3_open", INT, ctypes.c_char_p, ADDRESS)(b":memory:", ctypes.byref(base)) == 0
    execute = hook(lib, "sqlite3_exec", INT, ADDRESS, ctypes.c_char_p, ADDRESS, ADDRESS, ADDRESS)
    assert execute(base, FILL, None, None, None) == 0
    prepare = hook(lib, "sqlite3_prepare_v2", INT, ADDRESS, ctypes.c_char_p, INT, ADDRESS, ADDRESS)
    assert prepare(base, ASK, -1, ctypes.byref(statement), None) == 0
    step = hook(lib, "sqlite3_step", INT, ADDRESS)
    text = hook(lib, "sqlite3_column_text", ctypes.c_char_p, ADDRESS, INT)
    rows = []
    while (state := step(statement)) == ROW:
        rows.append(b"|".join(text(statement, column) or b"" for column in range(5)))
    assert state == DONE
    assert len(rows) > 10
    assert hook(lib, "sqlite3_finalize", INT, ADDRESS)(statement) == 0
    assert hook(lib, "sqlite3_close", INT, ADDRESS)(base) == 0
    return b"\n".join(rows)
