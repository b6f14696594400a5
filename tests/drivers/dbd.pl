# DBD::mysql and DBD::MariaDB, both with statements prepared on the server.
use strict;
use warnings;

use DBI;
use Data::Dumper;
use Digest::SHA qw(sha256_hex);

$Data::Dumper::Indent = 0;
$Data::Dumper::Terse = 1;
$Data::Dumper::Useqq = 1;
$| = 1;

my ($host, $port, $user, $password, $schema) = @ARGV;

sub show {
    my ($label, $value) = @_;
    print "$label: ", Dumper($value), "\n";
}

sub tables {
    open my $file, '<', 'tables.sql' or die $!;
    local $/ = '';
    my @statements = <$file>;
    return @statements;
}

sub connection {
    my ($driver, $name, %options) = @_;
    my $address = "dbi:$driver:database=$schema;host=$host;port=$port";
    return DBI->connect($address, $user, $password,
        { RaiseError => 1, PrintError => 0, AutoCommit => 1, "${name}_server_prepare" => 1, %options });
}

sub types {
    my ($db) = @_;
    my $text = $db->prepare('SELECT * FROM typed ORDER BY id');
    $text->execute;
    show('columns', [$text->{NAME}, $text->{TYPE}, $text->{NULLABLE}]);
    show('text', $text->fetchall_arrayref);
    my @values = (4, 127, 32767, 8388607, '9223372036854775807', '18446744073709551615', '99999999999999.999999', 0.25,
        '1e300', '9999-12-31', '2026-01-02 03:04:05.000678', '23:00:00.007', '2021-06-07 08:09:10', 1999, 'ch',
        qq('"\\\n), 't' x 300, "\0\1\2\3", "\0\1" x 10, '{"k": "v"}', 'a', 'x,y', "\x15");
    $db->do('INSERT INTO typed VALUES (' . join(', ', ('?') x @values) . ')', {}, @values);
    my $typed = $db->prepare('SELECT * FROM typed WHERE id = ?');
    for my $id (1, 2, 3, 4, 3, 1) {
        $typed->execute($id);
        show('prepared', $typed->fetchall_arrayref);
    }
    my $echo = $db->prepare('SELECT ?, n FROM numbers WHERE n = ?');
    for my $value (1, -1.5, q(it's \\ x), undef, '', 'long' x 100) {
        $echo->execute($value, 1);
        show('parameter', $echo->fetchall_arrayref);
    }
    $echo->bind_param(1, 7, DBI::SQL_INTEGER);
    $echo->bind_param(2, 1, DBI::SQL_INTEGER);
    $echo->execute;
    show('parameter', $echo->fetchall_arrayref);
}

sub writes {
    my ($db, $name) = @_;
    for my $statement (
        "INSERT INTO items (v) VALUES ('one')", "INSERT INTO items (v) VALUES ('two'), ('three')",
        "UPDATE items SET v = 'same' WHERE id < 3", "UPDATE items SET v = 'same' WHERE id < 4",
        'DELETE FROM items WHERE id = 3')
    {
        show('affected', [$db->do($statement) + 0, $db->{"${name}_insertid"}]);
    }
    show('last id', [$db->last_insert_id(undef, undef, 'items', 'id'), $db->selectrow_array('SELECT LAST_INSERT_ID()')]);

    my $insert = $db->prepare('INSERT INTO items (v) VALUES (?)');
    my $read = $db->prepare('SELECT v FROM items WHERE id = ?');
    my $stale = 0;
    for my $n (0 .. 199) {
        $insert->execute("v$n");
        my $id = $insert->{"${name}_insertid"};
        $read->execute($id);
        my ($found) = $read->fetchrow_array;
        $read->finish;
        $stale++ unless defined $found && $found eq "v$n";
    }
    show('stale reads', $stale);

    my $all = $db->prepare('SELECT * FROM items WHERE id = ?');
    $all->execute(1);
    show('before', $all->fetchall_arrayref);
    $db->do('ALTER TABLE items ADD extra INT DEFAULT 7');
    # The drivers refuse a statement whose columns have changed, and say so.
    eval { $all->execute(1); show('after', $all->fetchall_arrayref) };
    show('after', [$db->err, $db->state, $db->errstr]) if $@;
    show('anew', $db->selectall_arrayref('SELECT * FROM items WHERE id = ?', {}, 1));

    my $long = "long\0" x (2 * 1024 * 1024 / 5);
    my $file = $db->prepare('INSERT INTO files VALUES (?, ?)');
    $file->bind_param(1, 1);
    $file->bind_param(2, $long, DBI::SQL_BLOB);
    $file->execute;
    my ($data) = $db->selectrow_array('SELECT data FROM files WHERE id = ?', {}, 1);
    show('long', [length $data, sha256_hex($data)]);
}

sub transactions {
    my ($db) = @_;
    my $count = sub { show($_[0], $db->selectall_arrayref("SELECT COUNT(*) FROM items WHERE v LIKE 'tx%'")) };
    $db->begin_work;
    $db->do('INSERT INTO items (v) VALUES (?)', {}, 'tx1');
    $db->do('SAVEPOINT here');
    $db->do('INSERT INTO items (v) VALUES (?)', {}, 'tx2');
    $count->('inside');
    $db->do('ROLLBACK TO SAVEPOINT here');
    $db->commit;
    $count->('committed');
    $db->{AutoCommit} = 0;
    $db->do("DELETE FROM items WHERE v LIKE 'tx%'");
    $count->('autocommit off');
    $db->rollback;
    $db->{AutoCommit} = 1;
    $count->('rolled back');
    $db->do('START TRANSACTION READ ONLY');
    eval { $db->do('DELETE FROM items WHERE id = ?', {}, 1) };
    show('read only', [$db->err, $db->state, $db->errstr]);
    $db->do('COMMIT');
}

sub results {
    my ($db, $name) = @_;
    for my $wrong ('SELEC 1', 'SELECT * FROM no_such_table', 'INSERT INTO items (id) VALUES (1)') {
        eval { $db->do($wrong) };
        show('error', [$db->err, $db->state, $db->errstr]);
        eval { $db->selectall_arrayref("$wrong + ?", {}, 1) };
        show('error', [$db->err, $db->state, $db->errstr]);
    }
    show('value', $db->selectall_arrayref(q(SELECT CAST('x1' AS SIGNED))));
    show('warnings', $db->selectall_arrayref('SHOW WARNINGS', { "${name}_server_prepare" => 0 }));
    my $call = $db->prepare('CALL two_results(5)', { "${name}_server_prepare" => 0 });
    $call->execute;
    do { show('call', $call->{NUM_OF_FIELDS} ? $call->fetchall_arrayref : undef) } while ($call->more_results);
    $call->finish;
    $db->do('CALL twice(21, @b)');
    show('out', $db->selectall_arrayref('SELECT @b'));
    for my $n (1 .. 500) {
        my $statement = $db->prepare("SELECT v FROM items WHERE id = ? AND $n > 0");
        $statement->execute(2);
        $statement->finish;
    }
    $db->do('USE information_schema');
    show('schema', $db->selectall_arrayref('SELECT DATABASE()'));
    show('ping', $db->ping ? 1 : 0);
}

# DBD::MariaDB reads nothing that way.
sub streamed {
    my ($db) = @_;
    my $streamed = $db->prepare('SELECT n FROM numbers', { mysql_use_result => 1, mysql_server_prepare => 0 });
    $streamed->execute;
    my $sum = 0;
    while (my ($number) = $streamed->fetchrow_array) { $sum += $number }
    show('streamed', $sum);
}

sub reads {
    my ($db, $name) = @_;
    my $prepared = $db->prepare('SELECT n FROM numbers WHERE n = ?');
    for my $n (1 .. 25) {
        $prepared->execute($n);
        show('read', $prepared->fetchall_arrayref);
        show('read', $db->selectall_arrayref("SELECT n FROM numbers WHERE n = $n", { "${name}_server_prepare" => 0 }));
    }
}

for my $drivers (['mysql', 'mysql'], ['MariaDB', 'mariadb']) {
    my ($driver, $name) = @$drivers;
    my $db = connection($driver, $name);
    show('driver', [$driver, $db->{"${name}_serverinfo"}]);
    $db->do($_) for tables();
    types($db);
    writes($db, $name);
    transactions($db);
    results($db, $name);
    $db->disconnect;
    $db = connection($driver, $name);
    reads($db, $name);
    streamed($db) if $driver eq 'mysql';
    $db->disconnect;
}
print "end\n";
