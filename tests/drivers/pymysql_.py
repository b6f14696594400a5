"""PyMySQL."""

import sys

import pymysql
import pymysql.cursors
from pymysql.constants import CLIENT

import scenario
from scenario import show

host, port, user, password, schema = sys.argv[1:]
login = dict(host=host, port=int(port), user=user, password=password, database=schema)

with pymysql.connect(**login) as connection:
    show("server", (connection.get_server_info(), connection.get_autocommit(), connection.character_set_name()))
with pymysql.connect(charset="utf8mb4", init_command="SET time_zone = '+00:00'", autocommit=True, **login) as connection:
    scenario.run(connection, pymysql.Error)

with pymysql.connect(client_flag=CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS, autocommit=True, **login) as connection:
    connection.ping(reconnect=False)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM items WHERE v = 'multi'")
        cursor.execute("SELECT 1; INSERT INTO items (v) VALUES ('multi'); SELECT COUNT(*) FROM items WHERE v = 'multi'")
        show("multi", cursor.fetchall())
        while cursor.nextset():
            show("multi", (cursor.rowcount, cursor.lastrowid, cursor.fetchall()))
        cursor.execute("UPDATE items SET v = 'multi' WHERE v = 'multi'")
        show("found", cursor.rowcount)
        cursor.callproc("two_results", (5,))
        show("call", cursor.fetchall())
        while cursor.nextset():
            show("call", cursor.fetchall())
        cursor.callproc("twice", (21, 0))
        cursor.execute("SELECT @_twice_0, @_twice_1")
        show("out", cursor.fetchall())
    connection.begin()
    connection.cursor().execute("DELETE FROM items")
    connection.rollback()
    connection.select_db("information_schema")
    with connection.cursor() as cursor:
        show("schema", scenario.query(cursor, "SELECT DATABASE()"))

with pymysql.connect(cursorclass=pymysql.cursors.SSCursor, autocommit=True, **login) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT n FROM numbers ORDER BY n")
        show("streamed", sum(row[0] for row in cursor.fetchall_unbuffered()))
        cursor.execute("SELECT n FROM numbers ORDER BY n")
        show("first", cursor.fetchmany(3))
    scenario.reads(connection)
print("end")
