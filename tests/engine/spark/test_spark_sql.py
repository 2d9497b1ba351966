"""Sketches made in SQL are those of Python, in Spark and in DuckDB."""

import duckdb
import numpy as np
import pytest

import sfumato
from sfumato.engine import duckdb as duckdb_functions
from sfumato.engine.spark import register
from sfumato.engine.sql_functions import MAKERS

USERS = np.random.default_rng(0).integers(0, 500, 2000)
COUNTRIES = np.array(["se", "no", "fi"])[np.random.default_rng(1).integers(0, 3, 2000)]


class Spark:
    def __init__(self, engine):
        self.session = engine.session
        register(self.session)

    def table(self, name, rows, schema):
        self.session.createDataFrame(rows, schema).createOrReplaceTempView(name)

    def query(self, text):
        return [tuple(row) for row in self.session.sql(text).collect()]


class DuckDB:
    def __init__(self, _):
        self.connection = duckdb.connect()
        duckdb_functions.register(self.connection)

    def table(self, name, rows, schema):
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({schema})")
        holes = ", ".join("?" for _ in rows[0])
        self.connection.executemany(f"INSERT INTO {name} VALUES ({holes})", rows)

    def query(self, text):
        return self.connection.execute(text).fetchall()


@pytest.fixture(scope="module", params=[Spark, DuckDB], ids=["spark", "duckdb"])
def sql(request):
    engine = request.getfixturevalue("spark") if request.param is Spark else None
    made = request.param(engine)
    rows = [(c, int(u), f"user {u}") for c, u in zip(COUNTRIES.tolist(), USERS, strict=True)]
    made.table("events", [*rows, ("se", None, None)], "country string, user bigint, name string")
    return made


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("column", ["user", "name"])
def test_aggregates_have_the_bytes_of_one_machine(sql, name, column):
    query = f"SELECT country, {name}({column}) FROM events GROUP BY country"
    found = {country: bytes(packed) for country, packed in sql.query(query)}
    assert found.keys() == {"se", "no", "fi"}
    for country, packed in found.items():
        keys = USERS[country == COUNTRIES]
        keys = keys if column == "user" else [f"user {key}" for key in keys]
        assert sfumato.load(packed) == MAKERS[name]().update(keys)  # without the null
        assert packed == MAKERS[name]().update(keys).to_bytes()


def test_sketches_are_merged_and_asked_in_sql(sql):
    inner = "SELECT country, sfumato_hll(user) AS s FROM events GROUP BY country"
    [(answer,)] = sql.query(f"SELECT sfumato_estimate(sfumato_merge(s)) FROM ({inner}) t")
    assert answer == MAKERS["sfumato_hll"]().update(USERS).estimate()
    inner = "SELECT country, sfumato_count_min(user) AS s FROM events GROUP BY country"
    query = f"SELECT country, sfumato_estimate(s), sfumato_estimate(s, 7) FROM ({inner}) t"
    for country, total, sevens in sql.query(query):
        assert total == (country == COUNTRIES).sum()
        assert sevens == (USERS[country == COUNTRIES] == 7).sum()


def test_groups_of_nulls_have_an_empty_sketch_and_merge_to_none(sql):
    sql.table("nulls", [("a", 1), ("b", None)], "country string, user bigint")
    query = "SELECT country, sfumato_hll(user) FROM nulls GROUP BY country"
    found = dict(sql.query(query))
    assert sfumato.load(bytes(found["b"])) == MAKERS["sfumato_hll"]()
    inner = "SELECT country, CASE WHEN country = 'z' THEN sfumato_hll(user) END AS s"
    query = f"SELECT sfumato_merge(s) FROM ({inner} FROM nulls GROUP BY country) t"
    assert sql.query(query) == [(None,)]


def test_large_integers_with_nulls_are_not_rounded(sql):
    rows = [("a", 2**60 + 1), ("a", 2**60 + 3), ("a", None)]
    sql.table("large", rows, "country string, user bigint")
    expected = MAKERS["sfumato_hll"]().update([2**60 + 1, 2**60 + 3])
    text = "large"
    if isinstance(sql, Spark):
        with pytest.raises(Exception, match="cast the column to string"):  # it would round them
            sql.query("SELECT sfumato_hll(user) FROM large")
        text = "(SELECT CAST(user AS string) AS user FROM large) t"
    [(packed,)] = sql.query(f"SELECT sfumato_hll(user) FROM {text}")
    assert sfumato.load(bytes(packed)) == expected
