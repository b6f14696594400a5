"""mysqlclient (MySQLdb) on MariaDB's C library, which sends text only."""

import sys

import MySQLdb
import MySQLdb.cursors
from MySQLdb.constants import CLIENT

import scenario
from scenario import show

host, port, user, password, schema = sys.argv[1:]
login = dict(host=host, port=int(port), user=user, passwd=password, db=schema)

connection = MySQLdb.connect(**login)
show("server", (connection.get_server_info(), connection.get_autocommit(), connection.character_set_name()))
connection.close()

options = dict(charset="utf8mb4", init_command="SET time_zone = '+00:00'", autocommit=True)
connection = MySQLdb.connect(client_flag=CLIENT.MULTI_STATEMENTS, **options, **login)
scenario.run(connection, MySQLdb.Error)
cursor = connection.cursor()
cursor.callproc("two_results", (5,))
show("call", cursor.fetchall())
while cursor.nextset():
    show("call", cursor.fetchall())
cursor.callproc("twice", (21, 0))
cursor.nextset()
show("out", scenario.query(cursor, "SELECT @_twice_0, @_twice_1"))
connection.query("SELECT 1; UPDATE items SET v = 'multi' WHERE id = 1; SELECT v FROM items WHERE id = 1")
while True:
    result = connection.store_result()
    show("multi", (connection.affected_rows(), result and result.fetch_row(0)))
    if connection.next_result() == -1:
        break
connection.select_db("information_schema")
show("schema", scenario.query(cursor, "SELECT DATABASE()"))
connection.ping()
connection.change_user(user, password, schema)
show("changed user", scenario.query(cursor, "SELECT DATABASE(), COUNT(*), (SELECT COUNT(*) FROM numbers) FROM items"))
connection.close()

connection = MySQLdb.connect(cursorclass=MySQLdb.cursors.SSCursor, autocommit=True, **login)
streaming = connection.cursor()
streaming.execute("SELECT n FROM numbers ORDER BY n")
show("streamed", sum(row[0] for row in streaming))
streaming.execute("SELECT n FROM numbers ORDER BY n")
show("first", streaming.fetchmany(3))
streaming.close()
scenario.reads(connection)
connection.close()
print("end")
