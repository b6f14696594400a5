"""mysql-connector-python, its pure Python and its C part; prepared cursors prepare on the server."""

import sys

import mysql.connector
from mysql.connector.pooling import MySQLConnectionPool

import scenario
from scenario import show

host, port, user, password, schema = sys.argv[1:]
# The default collation is one that MariaDB 10.11 does not have.
login = dict(host=host, port=int(port), user=user, password=password, database=schema, collation="utf8mb4_general_ci")
COLUMNS = (
    "id", "ti", "si", "mi", "bi", "bu", "dc", "fl", "db", "da", "dt", "tm", "ts", "yr", "ch", "vc", "tx", "bn", "bl", "js",
    "en", "st", "bt",
)  # fmt: skip


def session(connection):
    cursor = connection.cursor()
    cursor.callproc("two_results", (5,))
    for result in cursor.stored_results():
        show("call", result.fetchall())
    show("out", cursor.callproc("twice", (21, 0)))
    # It takes MariaDB for MySQL 5.5, which has no such transactions.
    readonly = connection.get_server_version() >= (5, 6, 5) or None
    connection.start_transaction(readonly=readonly, isolation_level="READ COMMITTED")
    show("read only", (connection.in_transaction, scenario.query(cursor, "SELECT COUNT(*) FROM items")))
    connection.rollback()
    connection.start_transaction(consistent_snapshot=True)
    cursor.execute("DELETE FROM items")
    connection.rollback()
    connection.database = "information_schema"
    show("schema", (connection.database, scenario.query(cursor, "SELECT DATABASE()")))
    connection.cmd_change_user(user, password, schema)
    connection.cmd_reset_connection()
    connection.autocommit = True
    connection.ping(reconnect=False)
    show("changed user", (connection.is_connected(), scenario.query(cursor, "SELECT DATABASE(), COUNT(*) FROM items")))


for pure in (True, False):
    options = dict(use_pure=pure, **login)
    connection = mysql.connector.connect(autocommit=True, time_zone="+00:00", get_warnings=True, **options)
    show("server", (type(connection).__name__, connection.get_server_info(), connection.charset, connection.autocommit))
    # The pure part cannot read a YEAR in the binary protocol.
    columns = "*" if not pure else ", ".join(column for column in COLUMNS if column != "yr")
    # It waits for the server's delayed acknowledgement after each statement that it closes.
    many = 50 if pure else 500
    scenario.run(connection, mysql.connector.Error, lambda: connection.cursor(prepared=True), columns, many)
    session(connection)
    connection.close()

    pool = MySQLConnectionPool(pool_name=f"pool{pure}", pool_size=2, pool_reset_session=True, autocommit=True, **options)
    for number in range(6):
        connection = pool.get_connection()
        cursor = connection.cursor()
        show("pool", scenario.query(cursor, "SELECT @kept, n FROM numbers WHERE n = %s", (number + 1,)))
        cursor.execute("SET @kept = 1")
        connection.close()

    connection = mysql.connector.connect(autocommit=True, **options)
    cursor = connection.cursor()
    cursor.execute("SELECT n FROM numbers ORDER BY n")
    show("streamed", sum(row[0] for row in cursor))
    scenario.reads(connection, connection.cursor(prepared=True))
    connection.close()
print("end")
