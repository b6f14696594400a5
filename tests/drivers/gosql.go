// go-sql-driver/mysql: statements with arguments are prepared on the server, those without are sent as text.
package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// queryer is a pool, a connection or a transaction.
type queryer interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

var ctx = context.Background()

func show(label string, rows *sql.Rows, err error) {
	check(err)
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		check(err)
		for _, column := range types {
			nullable, _ := column.Nullable()
			fmt.Print(label, " ", column.Name(), " ", column.DatabaseTypeName(), " ", nullable, "; ")
		}
		fmt.Println()
		for rows.Next() {
			values := make([]any, len(types))
			places := make([]any, len(types))
			for i := range values {
				places[i] = &values[i]
			}
			check(rows.Scan(places...))
			for i, value := range values {
				if bytes, ok := value.([]byte); ok {
					values[i] = fmt.Sprintf("%q", bytes)
				}
			}
			fmt.Println(label, values)
		}
	}
	check(rows.Err())
}

func query(db queryer, label, text string, arguments ...any) {
	rows, err := db.QueryContext(ctx, text, arguments...)
	show(label, rows, err)
}

func exec(db queryer, label, text string, arguments ...any) int64 {
	result, err := db.ExecContext(ctx, text, arguments...)
	check(err)
	affected, err := result.RowsAffected()
	check(err)
	id, err := result.LastInsertId()
	check(err)
	if label != "" {
		fmt.Println(label, affected, id)
	}
	return id
}

func fails(db queryer, label, text string, arguments ...any) {
	_, err := db.ExecContext(ctx, text, arguments...)
	var problem *mysql.MySQLError
	if errors.As(err, &problem) {
		fmt.Println(label, problem.Number, problem.Message)
	} else {
		fmt.Println(label, "no error of MySQL:", err)
	}
}

func types(db *sql.Conn) {
	query(db, "text", "SELECT * FROM typed ORDER BY id")
	moment := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
	exec(db, "typed", "INSERT INTO typed VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 4, 127, 32767, 8388607,
		int64(1<<63-1), uint64(1<<64-1), "99999999999999.999999", 0.25, 1e300, moment, moment, "23:00:00.007", moment,
		1999, "ch", "'\"\\\U0001f600\n", strings.Repeat("t", 300), []byte{0, 1, 2, 3}, make([]byte, 20), `{"k": "v"}`,
		"a", "x,y", []byte{21})
	for _, id := range []int{1, 2, 3, 4, 3, 1} {
		query(db, "prepared", "SELECT * FROM typed WHERE id = ?", id)
	}
	statement, err := db.PrepareContext(ctx, "SELECT ?, n FROM numbers WHERE n = ?")
	check(err)
	defer statement.Close()
	for _, value := range []any{
		1, int64(-1 << 63), uint64(1<<64 - 1), 1.5, "it's \\ \U0001f600", nil, true, []byte{0, 255}, moment, "",
	} {
		rows, err := statement.Query(value, 1)
		show("parameter", rows, err)
	}
}

func writes(db *sql.Conn) {
	exec(db, "one", "INSERT INTO items (v) VALUES ('one')")
	exec(db, "two", "INSERT INTO items (v) VALUES (?), (?)", "two", "three")
	exec(db, "changed", "UPDATE items SET v = 'same' WHERE id < 3")
	exec(db, "changed", "UPDATE items SET v = 'same' WHERE id < ?", 4)
	exec(db, "deleted", "DELETE FROM items WHERE id = ?", 3)
	query(db, "last id", "SELECT LAST_INSERT_ID()")

	insert, err := db.PrepareContext(ctx, "INSERT INTO items (v) VALUES (?)")
	check(err)
	defer insert.Close()
	read, err := db.PrepareContext(ctx, "SELECT v FROM items WHERE id = ?")
	check(err)
	defer read.Close()
	stale := 0
	for n := 0; n < 200; n++ {
		want := fmt.Sprint("v", n)
		result, err := insert.Exec(want)
		check(err)
		id, err := result.LastInsertId()
		check(err)
		var prepared, text string
		if read.QueryRow(id).Scan(&prepared) != nil || prepared != want {
			stale++
		}
		if db.QueryRowContext(ctx, fmt.Sprint("SELECT v FROM items WHERE id = ", id)).Scan(&text) != nil || text != want {
			stale++
		}
	}
	fmt.Println("stale reads:", stale)

	all, err := db.PrepareContext(ctx, "SELECT * FROM items WHERE id = ?")
	check(err)
	defer all.Close()
	for _, alter := range []string{"DO 0", "ALTER TABLE items ADD extra INT DEFAULT 7"} {
		exec(db, "", alter)
		rows, err := all.Query(1)
		show(alter, rows, err)
	}

	long := []byte(strings.Repeat("long\x00\xff", 2*1024*1024/6))
	exec(db, "long", "INSERT INTO files VALUES (1, ?)", long)
	var data []byte
	check(db.QueryRowContext(ctx, "SELECT data FROM files WHERE id = ?", 1).Scan(&data))
	fmt.Printf("long %d %x\n", len(data), sha256.Sum256(data))
}

func transactions(db *sql.Conn) {
	const count = "SELECT COUNT(*) FROM items WHERE v LIKE ?"
	for _, options := range []*sql.TxOptions{nil, {Isolation: sql.LevelReadCommitted}, {Isolation: sql.LevelSerializable}} {
		tx, err := db.BeginTx(ctx, options)
		check(err)
		exec(tx, "inside", "INSERT INTO items (v) VALUES (?)", "tx1")
		exec(tx, "", "SAVEPOINT here")
		exec(tx, "inside", "INSERT INTO items (v) VALUES (?)", "tx2")
		query(tx, "inside", count, "tx%")
		exec(tx, "", "ROLLBACK TO SAVEPOINT here")
		check(tx.Commit())
		query(db, "committed", count, "tx%")
		tx, err = db.BeginTx(ctx, options)
		check(err)
		exec(tx, "inside", "DELETE FROM items WHERE v LIKE ?", "tx%")
		check(tx.Rollback())
		query(db, "rolled back", count, "tx%")
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	check(err)
	query(tx, "read only", count, "tx%")
	fails(tx, "read only", "DELETE FROM items WHERE id = ?", 1)
	check(tx.Commit())
	exec(db, "", "SET autocommit = 0")
	exec(db, "autocommit off", "DELETE FROM items WHERE v LIKE 'tx%'")
	query(db, "autocommit off", count, "tx%")
	exec(db, "", "ROLLBACK")
	exec(db, "", "SET autocommit = 1")
	query(db, "rolled back", count, "tx%")
}

func results(db *sql.Conn) {
	fails(db, "duplicate", "INSERT INTO items (id) VALUES (?)", 1)
	fails(db, "duplicate", "INSERT INTO items (id) VALUES (1)")
	fails(db, "syntax", "SELEC 1")
	fails(db, "syntax", "SELEC ?", 1)
	fails(db, "table", "SELECT * FROM no_such_table")
	fails(db, "table", "SELECT * FROM no_such_table WHERE a = ?", 1)
	query(db, "value", "SELECT CAST('x1' AS SIGNED)")
	query(db, "warnings", "SHOW WARNINGS")
	query(db, "multi", "SELECT 1 AS a; SELECT v FROM items WHERE id = 1")
	query(db, "call", "CALL two_results(?)", 5)
	exec(db, "", "CALL twice(?, @b)", 21)
	query(db, "out", "SELECT @b")
	for n := 0; n < 500; n++ {
		query(db, "many", fmt.Sprintf("SELECT v FROM items WHERE id = ? AND %d >= 0", n), 2)
	}
	exec(db, "", "USE information_schema")
	query(db, "schema", "SELECT DATABASE()")
	check(db.PingContext(ctx))
}

func main() {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", os.Args[1]+":"+os.Args[2]
	config.User, config.Passwd, config.DBName = os.Args[3], os.Args[4], os.Args[5]
	config.MultiStatements, config.ParseTime = true, true
	config.Params = map[string]string{"time_zone": "'+00:00'", "charset": "utf8mb4"}
	pool, err := sql.Open("mysql", config.FormatDSN())
	check(err)
	db, err := pool.Conn(ctx)
	check(err)
	query(db, "session", "SELECT VERSION(), @@character_set_client, @@time_zone, @@sql_mode")
	tables, err := os.ReadFile("tables.sql")
	check(err)
	for _, statement := range strings.Split(string(tables), "\n\n") {
		exec(db, "", statement)
	}
	for _, part := range []func(*sql.Conn){types, writes, transactions, results} {
		part(db)
	}
	check(db.Close())
	check(pool.Close())

	// Each connection of this pool is used once, and then once more after a check.
	pool, err = sql.Open("mysql", config.FormatDSN())
	check(err)
	pool.SetMaxOpenConns(3)
	for n := 1; n <= 25; n++ {
		query(pool, "read", fmt.Sprint("SELECT n FROM numbers WHERE n = ", n))
		query(pool, "read", "SELECT n FROM numbers WHERE n = ?", n)
	}
	rows, err := pool.Query("SELECT n FROM numbers ORDER BY n")
	check(err)
	check(pool.QueryRow("SELECT 1").Err()) // on another connection meanwhile
	show("streamed", rows, nil)
	check(pool.Close())
	fmt.Println("end")
}
