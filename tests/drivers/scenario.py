"""The scenario for drivers of Python's DB-API 2.0. Each script gives the driver's own parts."""

import datetime
import decimal
import hashlib
import pathlib

TABLES = pathlib.Path(__file__).with_name("tables.sql").read_text(encoding="utf-8").split("\n\n")
LONG = bytes(range(256)) * 8192
PARAMETERS = (1, -(2**63), "it's \\ \U0001f600", None, 1.5, 2, b"\x00\x7f", "", decimal.Decimal("1.20"))
# mysql-connector-python's C part cannot prepare with a timedelta, an integer above 2**63 - 1 or a float beyond single precision.
TYPED = (
    4, 127, 32767, 8388607, 2**63 - 1, decimal.Decimal(2**64 - 1), decimal.Decimal("99999999999999.999999"), 0.25, 1e30,
    datetime.date(9999, 12, 31), datetime.datetime(2026, 1, 2, 3, 4, 5, 678), "23:00:00.007",
    datetime.datetime(2021, 6, 7, 8, 9, 10), 1999, "ch", "'\"\\\U0001f600\n", "t" * 300, b"\x00\x01\x02\x03", b"\x00\xff" * 10,
    '{"k": "v"}', "a", "x,y", 21,
)  # fmt: skip


def show(label, value):
    print(f"{label}: {value!r}", flush=True)


def plain(value):
    """Sets have no order of their own."""
    return sorted(value) if isinstance(value, set) else value


def rows(cursor):
    return [tuple(plain(value) for value in row) for row in cursor.fetchall()]


def query(cursor, text, arguments=None):
    cursor.execute(text, arguments) if arguments else cursor.execute(text)
    return rows(cursor)


def fails(label, work, error):
    try:
        work()
        show(label, "no error")
    except error as problem:
        show(label, (type(problem).__name__, problem.args, getattr(problem, "sqlstate", None)))


def run(connection, error, prepared=None, columns="*", many=500):
    """Runs everything that the DB-API has, in autocommit mode; `prepared` makes cursors that prepare on the server,
    which can read these `columns`; so `many` statements are prepared and closed at the end."""
    cursor = connection.cursor()
    reader = prepared() if prepared else cursor
    show("session", query(cursor, "SELECT VERSION(), @@character_set_client, @@time_zone, @@sql_mode, @@autocommit"))
    for statement in TABLES:
        cursor.execute(statement)
    types(cursor, reader, columns)
    for value in PARAMETERS:
        show("parameter", query(reader, "SELECT %s AS value, n FROM numbers WHERE n = %s", (value, 1)))
    ids(cursor)
    show("stale reads", own_writes(cursor, prepared() if prepared else cursor, reader))
    altered(cursor, reader, error)
    blob(reader)
    transactions(connection, cursor)
    errors(cursor, reader, error)
    for number in range(many):
        statement = prepared() if prepared else connection.cursor()
        query(statement, f"SELECT {number}, v FROM items WHERE id = %s", (2,))
        statement.close()


def types(cursor, reader, columns):
    marks = ", ".join(["%s"] * len(TYPED))
    reader.execute(f"INSERT INTO typed VALUES ({marks})", TYPED)
    for row in query(cursor, "SELECT * FROM typed ORDER BY id"):
        show("text", row)
    show("columns", [column[:2] for column in cursor.description])
    for number in (1, 2, 3, 4, 3, 1):
        show("prepared", query(reader, f"SELECT {columns} FROM typed WHERE id = %s", (number,)))


def ids(cursor):
    for statement in (
        "INSERT INTO items (v) VALUES ('one')",
        "INSERT INTO items (v) VALUES ('two'), ('three')",
        "UPDATE items SET v = 'same' WHERE id < 3",
        "UPDATE items SET v = 'same' WHERE id < 4",
        "INSERT INTO items (id, v) VALUES (1, 'x') ON DUPLICATE KEY UPDATE v = 'y'",
        "DELETE FROM items WHERE id = 3",
    ):
        cursor.execute(statement)
        show("affected", (cursor.rowcount, cursor.lastrowid))
    show("last id", query(cursor, "SELECT LAST_INSERT_ID()"))
    cursor.executemany("INSERT INTO items (v) VALUES (%s)", [("many",), ("many",)])
    show("many", cursor.rowcount)


def own_writes(cursor, writer, reader):
    stale = 0
    for number in range(200):
        writer.execute("INSERT INTO items (v) VALUES (%s)", (f"v{number}",))
        key = writer.lastrowid
        stale += query(reader, "SELECT v FROM items WHERE id = %s", (key,)) != [(f"v{number}",)]
        stale += query(cursor, f"SELECT v FROM items WHERE id = {key}") != [(f"v{number}",)]
    return stale


def altered(cursor, reader, error):
    text = "SELECT * FROM items WHERE id = %s"
    show("before", query(reader, text, (1,)))
    cursor.execute("ALTER TABLE items ADD extra INT DEFAULT 7")
    try:
        show("after", query(reader, text, (1,)))
    except error as problem:
        # mysql-connector-python's C part needs the statement to be prepared anew.
        show("after", problem.args)
        show("anew", query(reader, text + " LIMIT 1", (1,)))


def blob(reader):
    reader.execute("INSERT INTO files VALUES (%s, %s)", (1, LONG))
    [(data,)] = query(reader, "SELECT data FROM files WHERE id = %s", (1,))
    show("long", (len(data), hashlib.sha256(data).hexdigest()))


def transactions(connection, cursor):
    def undone():
        return query(cursor, "SELECT COUNT(*) FROM items WHERE v LIKE 'tx%'")

    cursor.execute("START TRANSACTION")
    cursor.execute("INSERT INTO items (v) VALUES ('tx1')")
    cursor.execute("SAVEPOINT here")
    cursor.execute("INSERT INTO items (v) VALUES ('tx2')")
    show("inside", undone())
    cursor.execute("ROLLBACK TO SAVEPOINT here")
    show("to savepoint", undone())
    connection.commit()
    show("committed", undone())
    cursor.execute("SET autocommit = 0")
    cursor.execute("DELETE FROM items WHERE v LIKE 'tx%'")
    show("autocommit off", undone())
    connection.rollback()
    cursor.execute("SET autocommit = 1")
    show("rolled back", undone())


def errors(cursor, reader, error):
    cursor.execute("START TRANSACTION READ ONLY")
    fails("read only", lambda: cursor.execute("DELETE FROM items"), error)
    cursor.execute("COMMIT")
    for text in ("SELECT * FROM no_such_table", "SELEC 1", "INSERT INTO items (id) VALUES (1)", "SELECT no_column FROM items"):
        fails("error", lambda: cursor.execute(text), error)
    fails("prepared", lambda: reader.execute("SELECT * FROM no_such_table WHERE id = %s", (1,)), error)
    fails("prepared", lambda: reader.execute("INSERT INTO items (id) VALUES (%s)", (1,)), error)
    show("value", query(cursor, "SELECT CAST('x1' AS SIGNED)"))
    show("warnings", query(cursor, "SHOW WARNINGS"))


def reads(connection, reader=None):
    """Reads of a session that wrote nothing: all of them can go to the replica."""
    cursor = connection.cursor()
    for number in range(1, 26):
        show("read", query(cursor, f"SELECT n FROM numbers WHERE n = {number}"))
        if reader:
            show("read", query(reader, "SELECT n FROM numbers WHERE n = %s", (number,)))
