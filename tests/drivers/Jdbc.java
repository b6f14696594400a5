// MariaDB Connector/J, with statements prepared on the server.

import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Arrays;
import org.mariadb.jdbc.MariaDbPoolDataSource;

public final class Jdbc {
    private static final String COUNT = "SELECT COUNT(*) FROM items WHERE v LIKE 'tx%'";
    private static final String OPTIONS = "?useServerPrepStmts=true&allowPublicKeyRetrieval=true&allowMultiQueries=true"
        + "&serverTimezone=UTC&sslMode=disable";

    private final Connection connection;
    private final Statement text;

    private Jdbc(Connection connection) throws SQLException {
        this.connection = connection;
        this.text = connection.createStatement();
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:mariadb://" + arguments[0] + ":" + arguments[1] + "/" + arguments[4] + OPTIONS;
        try (Connection connection = DriverManager.getConnection(url, arguments[2], arguments[3])) {
            new Jdbc(connection).run();
        }
        String login = "&user=" + arguments[2] + "&password=" + arguments[3];
        try (MariaDbPoolDataSource pool =
                new MariaDbPoolDataSource(url + login + "&maxPoolSize=2&useResetConnection=true")) {
            for (int n = 1; n <= 25; n++) {
                reads(pool, n);
            }
        }
        System.out.println("end");
    }

    private void run() throws Exception {
        DatabaseMetaData server = connection.getMetaData();
        show("server", server.getDatabaseProductName(), server.getDatabaseProductVersion(), server.getURL().contains("jdbc"));
        for (String statement : Files.readString(Path.of("tables.sql")).split("\n\n")) {
            text.execute(statement);
        }
        types();
        parameters();
        writes();
        altered();
        blob();
        transactions();
        errors();
        results();
        procedure();
        cancelled();
        session();
    }

    /// The driver kills it by the connection's id as the greeting gave it.
    private void cancelled() throws Exception {
        long started = System.nanoTime();
        Thread canceller = new Thread(() -> {
            try {
                Thread.sleep(500);
                text.cancel();
            } catch (InterruptedException | SQLException error) {
                show("cancel", error.toString());
            }
        });
        canceller.start();
        try {
            text.executeQuery("SELECT COUNT(*) FROM numbers a, numbers b, numbers c, numbers d").close();
            show("not cancelled");
        } catch (SQLException error) {
            show("cancelled", error.getErrorCode(), error.getSQLState(), System.nanoTime() - started < 20_000_000_000L);
        }
        canceller.join();
        query("afterwards", "SELECT n FROM numbers WHERE n = 7");
    }

    private static void show(Object... values) {
        System.out.println(Arrays.deepToString(values));
    }

    private static void rows(String label, ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        while (rows.next()) {
            Object[] values = new Object[columns.getColumnCount()];
            for (int at = 0; at < values.length; at++) {
                values[at] = rows.getObject(at + 1);
            }
            show(label, values);
        }
        rows.close();
    }

    private void query(String label, String statement) throws SQLException {
        rows(label, text.executeQuery(statement));
    }

    private static void reads(MariaDbPoolDataSource pool, int number) throws SQLException {
        try (Connection connection = pool.getConnection();
            PreparedStatement prepared = connection.prepareStatement("SELECT n, @kept FROM numbers WHERE n = ?")) {
            rows("read", connection.createStatement().executeQuery("SELECT n FROM numbers WHERE n = " + number));
            prepared.setInt(1, number);
            rows("read", prepared.executeQuery());
            connection.createStatement().execute("SET @kept = 1");
        }
    }

    private void types() throws SQLException {
        Object[] values = {
            4, 127, 32767, 8388607, Long.MAX_VALUE, new BigInteger("18446744073709551615"),
            new BigDecimal("99999999999999.999999"), 0.25f, 1e300, "9999-12-31", Timestamp.valueOf("2026-01-02 03:04:05.000678"),
            "23:00:00.007", Timestamp.valueOf("2021-06-07 08:09:10"), 1999, "ch", "'\"\\\uD83D\uDE00\n", "t".repeat(300),
            new byte[] {0, 1, 2, 3}, new byte[20], "{\"k\": \"v\"}", "a", "x,y", 21,
        };
        String marks = "?, ".repeat(values.length - 1) + "?";
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO typed VALUES (" + marks + ")")) {
            for (int at = 0; at < values.length; at++) {
                insert.setObject(at + 1, values[at]);
            }
            insert.executeUpdate();
        }
        ResultSet all = text.executeQuery("SELECT * FROM typed ORDER BY id");
        ResultSetMetaData columns = all.getMetaData();
        for (int at = 1; at <= columns.getColumnCount(); at++) {
            show("column", columns.getColumnName(at), columns.getColumnTypeName(at), columns.getPrecision(at),
                columns.isSigned(at), columns.isNullable(at), columns.getTableName(at));
        }
        rows("text", all);
        try (PreparedStatement typed = connection.prepareStatement("SELECT * FROM typed WHERE id = ?")) {
            for (int id : new int[] {1, 2, 3, 4, 3, 1}) {
                typed.setInt(1, id);
                rows("prepared", typed.executeQuery());
            }
        }
    }

    private void parameters() throws SQLException {
        Object[] values = {
            1, Long.MIN_VALUE, 1.5, new BigDecimal("12.340"), "it's \\ \uD83D\uDE00", null, true, "",
            Timestamp.valueOf("2026-01-02 03:04:05.000678"),
        };
        try (PreparedStatement echo = connection.prepareStatement("SELECT ?, n FROM numbers WHERE n = ?")) {
            for (Object value : values) {
                echo.setObject(1, value);
                echo.setInt(2, 1);
                rows("parameter", echo.executeQuery());
            }
        }
    }

    private void writes() throws SQLException {
        for (String statement : new String[] {
            "INSERT INTO items (v) VALUES ('one')", "INSERT INTO items (v) VALUES ('two'), ('three')",
            "UPDATE items SET v = 'same' WHERE id < 3", "UPDATE items SET v = 'same' WHERE id < 4",
            "DELETE FROM items WHERE id = 3",
        }) {
            show("affected", text.executeUpdate(statement, Statement.RETURN_GENERATED_KEYS));
            rows("keys", text.getGeneratedKeys());
        }
        query("last id", "SELECT LAST_INSERT_ID()");
        int stale = 0;
        try (PreparedStatement insert =
                connection.prepareStatement("INSERT INTO items (v) VALUES (?)", Statement.RETURN_GENERATED_KEYS);
            PreparedStatement read = connection.prepareStatement("SELECT v FROM items WHERE id = ?")) {
            for (int n = 0; n < 200; n++) {
                insert.setString(1, "v" + n);
                insert.executeUpdate();
                ResultSet keys = insert.getGeneratedKeys();
                keys.next();
                read.setLong(1, keys.getLong(1));
                ResultSet found = read.executeQuery();
                stale += found.next() && found.getString(1).equals("v" + n) ? 0 : 1;
            }
            for (int n = 0; n < 50; n++) {
                insert.setString(1, "batch" + n);
                insert.addBatch();
            }
            show("batch", insert.executeBatch());
        }
        System.out.println("stale reads: " + stale);
    }

    private void altered() throws SQLException {
        try (PreparedStatement all = connection.prepareStatement("SELECT * FROM items WHERE id = ?")) {
            all.setInt(1, 1);
            rows("before", all.executeQuery());
            text.executeUpdate("ALTER TABLE items ADD extra INT DEFAULT 7");
            rows("after", all.executeQuery());
        }
    }

    private void blob() throws Exception {
        byte[] data = new byte[2 * 1024 * 1024];
        for (int at = 0; at < data.length; at++) {
            data[at] = (byte) (at % 251);
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO files VALUES (?, ?)");
            PreparedStatement read = connection.prepareStatement("SELECT data FROM files WHERE id = ?")) {
            insert.setInt(1, 1);
            insert.setBinaryStream(2, new ByteArrayInputStream(data));
            insert.executeUpdate();
            read.setInt(1, 1);
            ResultSet rows = read.executeQuery();
            rows.next();
            byte[] found = rows.getBytes(1);
            show("long", found.length, MessageDigest.getInstance("SHA-256").digest(found));
        }
    }

    private void transactions() throws SQLException {
        for (int level : new int[] {
            Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_SERIALIZABLE, Connection.TRANSACTION_REPEATABLE_READ
        }) {
            connection.setTransactionIsolation(level);
            connection.setAutoCommit(false);
            text.executeUpdate("INSERT INTO items (v) VALUES ('tx1')");
            Savepoint savepoint = connection.setSavepoint();
            text.executeUpdate("INSERT INTO items (v) VALUES ('tx2')");
            query("inside", COUNT);
            connection.rollback(savepoint);
            connection.commit();
            query("committed", COUNT);
            text.executeUpdate("DELETE FROM items WHERE v LIKE 'tx%'");
            connection.rollback();
            query("rolled back", COUNT);
            connection.setAutoCommit(true);
            show("level", connection.getTransactionIsolation());
        }
        connection.setReadOnly(true);
        connection.setAutoCommit(false);
        query("read only", COUNT);
        fails("read only", () -> text.executeUpdate("DELETE FROM items WHERE id = 1"));
        connection.rollback();
        connection.setAutoCommit(true);
        connection.setReadOnly(false);
    }

    private interface Work {
        void run() throws SQLException;
    }

    /** The driver adds its connection's id to the server's text, so that is left out. */
    private static void fails(String label, Work work) {
        try {
            work.run();
            show(label, "no error");
        } catch (SQLException error) {
            show(label, error.getErrorCode(), error.getSQLState(), error.getMessage().replaceFirst("^\\(conn=-?\\d+\\) ", ""));
        }
    }

    private void errors() throws SQLException {
        for (String wrong : new String[] {
            "SELEC 1", "SELECT * FROM no_such_table", "INSERT INTO items (id) VALUES (1)"
        }) {
            fails("text", () -> text.execute(wrong));
            fails("prepared", () -> connection.prepareStatement(wrong).execute());
        }
        ResultSet value = text.executeQuery("SELECT CAST('x1' AS SIGNED)");
        SQLWarning warning = text.getWarnings();
        show("warning", warning.getErrorCode(), warning.getSQLState(), warning.getMessage());
        rows("value", value);
    }

    private void results() throws SQLException {
        boolean more = text.execute("SELECT 1 AS a; UPDATE items SET v = 'm' WHERE id = 1; SELECT v FROM items WHERE id = 1");
        while (more || text.getUpdateCount() != -1) {
            if (more) {
                rows("multi", text.getResultSet());
            } else {
                show("multi", text.getUpdateCount());
            }
            more = text.getMoreResults();
        }
        try (PreparedStatement numbers = connection.prepareStatement("SELECT n FROM numbers WHERE n > ?")) {
            numbers.setFetchSize(100);
            numbers.setInt(1, 0);
            ResultSet rows = numbers.executeQuery();
            long sum = 0;
            while (rows.next()) {
                sum += rows.getInt(1);
            }
            show("streamed", sum);
        }
        for (int n = 0; n < 500; n++) {
            String statement = "SELECT v FROM items WHERE id = ? AND " + n + " >= 0";
            try (PreparedStatement one = connection.prepareStatement(statement)) {
                one.setInt(1, 2);
                one.executeQuery();
            }
        }
    }

    private void procedure() throws SQLException {
        try (CallableStatement call = connection.prepareCall("{CALL two_results(?)}")) {
            call.setInt(1, 5);
            for (boolean more = call.execute(); more; more = call.getMoreResults()) {
                rows("call", call.getResultSet());
            }
        }
        try (CallableStatement call = connection.prepareCall("{CALL twice(?, ?)}")) {
            call.setInt(1, 21);
            call.registerOutParameter(2, Types.INTEGER);
            call.execute();
            show("out", call.getInt(2));
        }
    }

    private void session() throws SQLException {
        connection.setCatalog("information_schema");
        show("schema", connection.getCatalog());
        query("schema", "SELECT DATABASE()");
        show("valid", connection.isValid(5));
    }
}
