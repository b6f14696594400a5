<?php
// mysqli and PDO on mysqlnd, both with statements prepared on the server.

declare(strict_types=1);

[, $host, $port, $user, $password, $schema] = $argv;

const FLAGS = JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;
const PARAMETERS = [1, PHP_INT_MIN, 1.5, "it's \\ \u{1f600}", null, '', "\0\xff"];
const TYPED = [
    4, 127, 32767, 8388607, PHP_INT_MAX, '18446744073709551615', '99999999999999.999999', 0.25, 1e300, '9999-12-31',
    '2026-01-02 03:04:05.000678', '23:00:00.007', '2021-06-07 08:09:10', 1999, 'ch', "'\"\\\u{1f600}\n", 'text',
    "\0\1\2\3", "\0\xff\0\xff", '{"k": "v"}', 'a', 'x,y', "\x15",
];
const STATEMENTS = [
    "INSERT INTO items (v) VALUES ('one')",
    "INSERT INTO items (v) VALUES ('two'), ('three')",
    "UPDATE items SET v = 'same' WHERE id < 3",
    "UPDATE items SET v = 'same' WHERE id < 4",
    'DELETE FROM items WHERE id = 3',
];
const WRONG = ['SELEC 1', 'SELECT * FROM no_such_table', 'INSERT INTO items (id) VALUES (1)'];
const COUNT = "SELECT COUNT(*) FROM items WHERE v LIKE 'tx%'";
const ADD_COLUMN = 'ALTER TABLE items ADD extra INT DEFAULT 7';

function show(string $label, mixed $value): void
{
    echo $label, ': ', json_encode($value, FLAGS), "\n";
}

function tables(): array
{
    return explode("\n\n", file_get_contents(__DIR__ . '/tables.sql'));
}

function marks(): string
{
    return implode(', ', array_fill(0, count(TYPED), '?'));
}

final class WithMysqli
{
    public function __construct(private mysqli $db)
    {
    }

    public function run(): void
    {
        show('server', [$this->db->server_info, $this->db->character_set_name()]);
        array_map($this->db->query(...), tables());
        $this->types();
        $this->writes();
        $this->blob();
        $this->transactions();
        $this->errors();
        $this->results();
        $this->session();
    }

    private function types(): void
    {
        $this->db->prepare('INSERT INTO typed VALUES (' . marks() . ')')->execute(TYPED);
        $result = $this->db->query('SELECT * FROM typed ORDER BY id');
        show('columns', array_map(fn ($it) => [$it->name, $it->type, $it->flags, $it->length], $result->fetch_fields()));
        show('text', $result->fetch_all());
        $typed = $this->db->prepare('SELECT * FROM typed WHERE id = ?');
        foreach ([1, 2, 3, 4, 3, 1] as $id) {
            $typed->execute([$id]);
            show('prepared', $typed->get_result()->fetch_all());
        }
        $echo = $this->db->prepare('SELECT ?, n FROM numbers WHERE n = ?');
        foreach (PARAMETERS as $value) {
            $type = match (gettype($value)) { 'integer' => 'i', 'double' => 'd', default => 's' };
            $one = 1;
            $echo->bind_param($type . 'i', $value, $one);
            $echo->execute();
            show('parameter', $echo->get_result()->fetch_row());
        }
    }

    private function writes(): void
    {
        foreach (STATEMENTS as $statement) {
            $this->db->query($statement);
            show('affected', [$this->db->affected_rows, $this->db->insert_id, $this->db->info]);
        }
        show('last id', $this->db->query('SELECT LAST_INSERT_ID()')->fetch_row());
        $insert = $this->db->prepare('INSERT INTO items (v) VALUES (?)');
        $read = $this->db->prepare('SELECT v FROM items WHERE id = ?');
        $stale = 0;
        for ($n = 0; $n < 200; $n++) {
            $insert->execute(["v$n"]);
            $read->execute([$insert->insert_id]);
            $stale += $read->get_result()->fetch_row() === ["v$n"] ? 0 : 1;
            $text = $this->db->query("SELECT v FROM items WHERE id = {$insert->insert_id}");
            $stale += $text->fetch_row() === ["v$n"] ? 0 : 1;
        }
        show('stale reads', $stale);
        $all = $this->db->prepare('SELECT * FROM items WHERE id = ?');
        $all->execute([1]);
        show('before', $all->get_result()->fetch_all());
        $this->db->query(ADD_COLUMN);
        $all->execute([1]);
        show('after', $all->get_result()->fetch_all());
    }

    private function blob(): void
    {
        $file = $this->db->prepare('INSERT INTO files VALUES (1, ?)');
        $null = null;
        $file->bind_param('b', $null);
        foreach (str_split(str_repeat("long\0\xff", 350_000), 100_000) as $piece) {
            $file->send_long_data(0, $piece);
        }
        $file->execute();
        [$data] = $this->db->query('SELECT data FROM files')->fetch_row();
        show('long', [strlen($data), hash('sha256', $data)]);
    }

    private function transactions(): void
    {
        $count = fn (string $label) => show($label, $this->db->query(COUNT)->fetch_row());
        $insert = $this->db->prepare('INSERT INTO items (v) VALUES (?)');
        $this->db->begin_transaction();
        $insert->execute(['tx1']);
        $this->db->savepoint('here');
        $insert->execute(['tx2']);
        $count('inside');
        $this->db->query('ROLLBACK TO SAVEPOINT here');
        $this->db->commit();
        $count('committed');
        $this->db->autocommit(false);
        $this->db->query("DELETE FROM items WHERE v LIKE 'tx%'");
        $count('autocommit off');
        $this->db->rollback();
        $this->db->autocommit(true);
        $count('rolled back');
        $this->db->begin_transaction(MYSQLI_TRANS_START_READ_ONLY);
        $count('read only');
        $this->fails('read only', fn () => $this->db->query('DELETE FROM items'));
        $this->db->commit();
    }

    private function fails(string $label, callable $work): void
    {
        try {
            $work();
            show($label, 'no error');
        } catch (mysqli_sql_exception $error) {
            show($label, [$error->getCode(), $error->getSqlState(), $error->getMessage()]);
        }
    }

    private function errors(): void
    {
        foreach (WRONG as $wrong) {
            $this->fails('error', fn () => $this->db->query($wrong));
            $this->fails('error', fn () => $this->db->prepare($wrong)->execute());
        }
        $this->db->query("SELECT CAST('x1' AS SIGNED)");
        $warning = $this->db->get_warnings();
        show('warnings', [$this->db->warning_count, $warning->errno, $warning->sqlstate, $warning->message]);
    }

    private function results(): void
    {
        $this->db->multi_query("SELECT 1; UPDATE items SET v = 'm' WHERE id = 1; CALL two_results(5)");
        do {
            $result = $this->db->store_result();
            show('multi', $result ? $result->fetch_all() : $this->db->affected_rows);
        } while ($this->db->next_result());
        $call = $this->db->prepare('CALL two_results(?)');
        $call->execute([5]);
        do {
            show('call', ($call->get_result() ?: null)?->fetch_all());
        } while ($call->next_result());
        $this->db->query('CALL twice(21, @b)');
        show('out', $this->db->query('SELECT @b')->fetch_row());

        $cursor = $this->db->prepare('SELECT n FROM numbers WHERE n > ? ORDER BY n');
        $cursor->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
        $cursor->execute([0]);
        $cursor->bind_result($number);
        for ($sum = 0; $cursor->fetch();) {
            $sum += $number;
        }
        show('cursor', $sum);
        $cursor->close();
        for ($n = 0; $n < 500; $n++) {
            $statement = $this->db->prepare("SELECT v FROM items WHERE id = ? AND $n >= 0");
            $statement->execute([2]);
            $statement->close();
        }
    }

    private function session(): void
    {
        $this->db->select_db('information_schema');
        show('schema', $this->db->query('SELECT DATABASE()')->fetch_row());
        $this->db->change_user($GLOBALS['user'], $GLOBALS['password'], $GLOBALS['schema']);
        show('changed user', $this->db->query('SELECT DATABASE(), @b, COUNT(*) FROM items')->fetch_row());
        show('ping', $this->db->ping());
        $this->db->close();
    }
}

final class WithPdo
{
    public function __construct(private PDO $db)
    {
    }

    public function run(): void
    {
        show('server', $this->db->getAttribute(PDO::ATTR_SERVER_VERSION));
        foreach (tables() as $statement) {
            $this->db->exec($statement);
        }
        $this->types();
        $this->writes();
        $this->transactions();
        foreach (WRONG as $wrong) {
            $this->fails('error', fn () => $this->db->exec($wrong));
            $this->fails('error', fn () => $this->db->prepare($wrong)->execute());
        }
        show('value', $this->rows("SELECT CAST('x1' AS SIGNED)"));
        $call = $this->db->prepare('CALL two_results(?)');
        $call->execute([5]);
        do {
            show('call', $call->columnCount() ? $call->fetchAll(PDO::FETCH_NUM) : null);
        } while ($call->nextRowset());
        for ($n = 0; $n < 500; $n++) {
            $this->db->prepare("SELECT v FROM items WHERE id = ? AND $n >= 0")->execute([2]);
        }
    }

    private function rows(string $text, array $arguments = []): array
    {
        $statement = $this->db->prepare($text);
        $statement->execute($arguments);
        return $statement->fetchAll(PDO::FETCH_NUM);
    }

    private function types(): void
    {
        $this->rows('INSERT INTO typed VALUES (' . marks() . ')', TYPED);
        $result = $this->db->query('SELECT * FROM typed ORDER BY id');
        show('columns', array_map($result->getColumnMeta(...), range(0, $result->columnCount() - 1)));
        show('text', $result->fetchAll(PDO::FETCH_NUM));
        $typed = $this->db->prepare('SELECT * FROM typed WHERE id = ?');
        foreach ([1, 2, 3, 4, 3, 1] as $id) {
            $typed->execute([$id]);
            show('prepared', $typed->fetchAll(PDO::FETCH_NUM));
        }
        foreach (PARAMETERS as $value) {
            show('parameter', $this->rows('SELECT ?, n FROM numbers WHERE n = ?', [$value, 1]));
        }
    }

    private function writes(): void
    {
        foreach (STATEMENTS as $statement) {
            show('affected', [$this->db->exec($statement), $this->db->lastInsertId()]);
        }
        $insert = $this->db->prepare('INSERT INTO items (v) VALUES (:v)');
        $read = $this->db->prepare('SELECT v FROM items WHERE id = :id');
        $stale = 0;
        for ($n = 0; $n < 200; $n++) {
            $insert->execute(['v' => "v$n"]);
            $read->execute(['id' => $this->db->lastInsertId()]);
            $stale += $read->fetchAll(PDO::FETCH_COLUMN) === ["v$n"] ? 0 : 1;
        }
        show('stale reads', $stale);
        $all = $this->db->prepare('SELECT * FROM items WHERE id = ?');
        $all->execute([1]);
        show('before', $all->fetchAll());
        $this->db->exec(ADD_COLUMN);
        $all->execute([1]);
        show('after', $all->fetchAll());
        $file = $this->db->prepare('INSERT INTO files VALUES (1, ?)');
        $file->bindValue(1, str_repeat("long\0\xff", 350_000), PDO::PARAM_LOB);
        $file->execute();
        [[$data]] = $this->rows('SELECT data FROM files');
        show('long', [strlen($data), hash('sha256', $data)]);
    }

    private function transactions(): void
    {
        $this->db->beginTransaction();
        $this->rows('INSERT INTO items (v) VALUES (?)', ['tx1']);
        show('inside', [$this->db->inTransaction(), $this->rows(COUNT)]);
        $this->db->commit();
        show('committed', $this->rows(COUNT));
        $this->db->setAttribute(PDO::ATTR_AUTOCOMMIT, 0);
        $this->db->exec("DELETE FROM items WHERE v LIKE 'tx%'");
        show('autocommit off', $this->rows(COUNT));
        $this->db->exec('ROLLBACK');
        $this->db->setAttribute(PDO::ATTR_AUTOCOMMIT, 1);
        show('rolled back', $this->rows(COUNT));
    }

    private function fails(string $label, callable $work): void
    {
        try {
            $work();
            show($label, 'no error');
        } catch (PDOException $error) {
            show($label, $error->errorInfo);
        }
    }
}

function connect_mysqli(): mysqli
{
    $db = new mysqli($GLOBALS['host'], $GLOBALS['user'], $GLOBALS['password'], $GLOBALS['schema'], (int) $GLOBALS['port']);
    $db->set_charset('utf8mb4');
    return $db;
}

function connect_pdo(bool $buffered): PDO
{
    $address = "mysql:host={$GLOBALS['host']};port={$GLOBALS['port']};dbname={$GLOBALS['schema']};charset=utf8mb4";
    return new PDO($address, $GLOBALS['user'], $GLOBALS['password'], [
        PDO::ATTR_EMULATE_PREPARES => false,
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => $buffered,
        PDO::MYSQL_ATTR_INIT_COMMAND => "SET time_zone = '+00:00'",
    ]);
}

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
(new WithMysqli(connect_mysqli()))->run();
(new WithPdo(connect_pdo(true)))->run();

$mysqli = connect_mysqli();
$pdo = connect_pdo(false);
show('streamed', array_sum(array_column(iterator_to_array($mysqli->query('SELECT n FROM numbers', MYSQLI_USE_RESULT)), 'n')));
show('streamed', array_sum($pdo->query('SELECT n FROM numbers')->fetchAll(PDO::FETCH_COLUMN)));
$prepared = $pdo->prepare('SELECT n FROM numbers WHERE n = ?');
for ($n = 1; $n <= 25; $n++) {
    show('read', $mysqli->query("SELECT n FROM numbers WHERE n = $n")->fetch_row());
    $prepared->execute([$n]);
    show('read', $prepared->fetchAll());
}
echo "end\n";
