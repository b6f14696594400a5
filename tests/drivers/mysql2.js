// mysql2 (Node.js): query() sends text, execute() prepares on the server and keeps the statement.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const callbacks = require('mysql2');
const mysql = require('mysql2/promise');

const [host, port, user, password, database] = process.argv.slice(2);
const login = { host, port: Number(port), user, password, database, charset: 'utf8mb4', timezone: 'Z' };
const tables = fs.readFileSync(path.join(__dirname, 'tables.sql'), 'utf8').split('\n\n');
const show = (label, value) =>
  console.log(`${label}: ${JSON.stringify(value, (_, it) => (typeof it === 'bigint' ? `${it}n` : it))}`);

async function fails(label, work) {
  try {
    await work();
    show(label, 'no error');
  } catch (error) {
    show(label, [error.errno, error.sqlState, error.message]);
  }
}

async function types(connection) {
  const [rows, fields] = await connection.query('SELECT * FROM typed ORDER BY id');
  show('text', rows);
  show('columns', fields.map(({ name, columnType, flags, characterSet }) => [name, columnType, flags, characterSet]));
  const values = [
    4, 127, 32767, 8388607, '9223372036854775807', '18446744073709551615', '99999999999999.999999', 0.25, 1e300,
    '9999-12-31', new Date(0), '23:00:00.007', new Date(1e12), 1999, 'ch', '\'"\\\u{1f600}\n', 't'.repeat(300),
    Buffer.from([0, 1, 2, 3]), Buffer.alloc(20, 0), '{"k": "v"}', 'a', 'x,y', 21,
  ];
  await connection.execute(`INSERT INTO typed VALUES (${values.map(() => '?').join()})`, values);
  for (const id of [1, 2, 3, 4, 3, 1]) {
    show('prepared', (await connection.execute('SELECT * FROM typed WHERE id = ?', [id]))[0]);
  }
  for (const value of [1, -1.5, "it's \\ \u{1f600}", null, true, new Date(0), Buffer.from([0, 255]), '', { a: 1 }]) {
    const [[row]] = await connection.execute('SELECT ? AS value, n FROM numbers WHERE n = ?', [value, 1]);
    show('parameter', row);
  }
}

async function writes(connection) {
  for (const statement of [
    "INSERT INTO items (v) VALUES ('one')",
    "INSERT INTO items (v) VALUES ('two'), ('three')",
    "UPDATE items SET v = 'same' WHERE id < 3",
    "UPDATE items SET v = 'same' WHERE id < 4",
    'DELETE FROM items WHERE id = 3',
  ]) {
    const [{ affectedRows, changedRows, insertId, info, warningStatus }] = await connection.query(statement);
    show('affected', [affectedRows, changedRows, insertId, info, warningStatus]);
  }
  show('last id', (await connection.query('SELECT LAST_INSERT_ID() AS id'))[0]);
  let stale = 0;
  for (let n = 0; n < 200; n += 1) {
    const [{ insertId }] = await connection.execute('INSERT INTO items (v) VALUES (?)', [`v${n}`]);
    const [[prepared]] = await connection.execute('SELECT v FROM items WHERE id = ?', [insertId]);
    const [[text]] = await connection.query('SELECT v FROM items WHERE id = ?', [insertId]);
    stale += prepared?.v === `v${n}` && text?.v === `v${n}` ? 0 : 1;
  }
  show('stale reads', stale);

  show('before', (await connection.execute('SELECT * FROM items WHERE id = ?', [1]))[0]);
  await connection.query('ALTER TABLE items ADD extra INT DEFAULT 7');
  show('after', (await connection.execute('SELECT * FROM items WHERE id = ?', [1]))[0]);

  const long = Buffer.alloc(2 * 1024 * 1024, 'long \0');
  await connection.execute('INSERT INTO files VALUES (1, ?)', [long]);
  const [[{ data }]] = await connection.execute('SELECT data FROM files WHERE id = ?', [1]);
  show('long', [data.length, crypto.createHash('sha256').update(data).digest('hex')]);
}

async function transactions(connection) {
  const count = async () => (await connection.execute("SELECT COUNT(*) AS n FROM items WHERE v LIKE 'tx%'"))[0][0].n;
  await connection.beginTransaction();
  await connection.execute('INSERT INTO items (v) VALUES (?)', ['tx1']);
  await connection.query('SAVEPOINT here');
  await connection.execute('INSERT INTO items (v) VALUES (?)', ['tx2']);
  show('inside', await count());
  await connection.query('ROLLBACK TO SAVEPOINT here');
  await connection.commit();
  show('committed', await count());
  await connection.query('SET autocommit = 0');
  await connection.execute("DELETE FROM items WHERE v LIKE 'tx%'");
  show('autocommit off', await count());
  await connection.rollback();
  await connection.query('SET autocommit = 1');
  show('rolled back', await count());
  await connection.query('START TRANSACTION READ ONLY');
  await fails('read only', () => connection.execute('DELETE FROM items'));
  show('read only', await count());
  await connection.commit();
}

async function errors(connection) {
  await fails('duplicate', () => connection.execute('INSERT INTO items (id) VALUES (?)', [1]));
  await fails('syntax', () => connection.query('SELEC 1'));
  await fails('syntax', () => connection.execute('SELEC ?', [1]));
  await fails('table', () => connection.query('SELECT * FROM no_such_table'));
  await fails('table', () => connection.execute('SELECT * FROM no_such_table'));
  show('value', (await connection.query("SELECT CAST('x1' AS SIGNED) AS n"))[0]);
  show('warnings', (await connection.query('SHOW WARNINGS'))[0]);
}

async function results(connection) {
  show('multi', (await connection.query("SELECT 1 AS a; UPDATE items SET v = 'm' WHERE id = 1; SELECT v FROM items WHERE id = 1"))[0]
    .map((result) => result.info ?? result));
  show('call', (await connection.execute('CALL two_results(?)', [5]))[0].slice(0, 2));
  show('call', (await connection.query('CALL two_results(?)', [6]))[0].slice(0, 2));
  await connection.query('CALL twice(21, @b)');
  show('out', (await connection.query('SELECT @b AS b'))[0]);
  for (let n = 0; n < 500; n += 1) {
    const statement = await connection.prepare(`SELECT ${n}, v FROM items WHERE id = ?`);
    await statement.execute([2]);
    await statement.close();
  }
  await connection.changeUser({ database: 'information_schema' });
  show('schema', (await connection.query('SELECT DATABASE() AS name'))[0]);
  await connection.changeUser({ user, password, database });
  show('changed user', (await connection.execute('SELECT DATABASE() AS name, COUNT(*) AS n FROM items WHERE id < ?', [9]))[0]);
  await connection.ping();
  await connection.reset();
  show('reset', (await connection.execute('SELECT @b AS b, COUNT(*) AS n FROM items WHERE id < ?', [9]))[0]);
}

function stream() {
  return new Promise((resolve, reject) => {
    const connection = callbacks.createConnection(login);
    let sum = 0;
    connection.query('SELECT n FROM numbers').stream({ highWaterMark: 5 })
      .on('data', ({ n }) => { sum += n; })
      .on('error', reject)
      .on('end', () => { connection.end(); resolve(sum); });
  });
}

async function main() {
  const connection = await mysql.createConnection({ ...login, multipleStatements: true, supportBigNumbers: true, bigNumberStrings: true });
  show('version', (await connection.query('SELECT VERSION() AS v, @@character_set_client AS c, @@sql_mode AS m'))[0]);
  for (const statement of tables) await connection.query(statement);
  for (const part of [types, writes, transactions, errors, results]) await part(connection);
  await connection.end();
  show('streamed', await stream());

  const pool = mysql.createPool({ ...login, connectionLimit: 3, resetOnRelease: true });
  const found = await Promise.all(
    Array.from({ length: 30 }, (_, n) => pool.execute('SELECT n FROM numbers WHERE n = ?', [n + 1])),
  );
  show('pool', found.map(([rows]) => rows[0].n));
  for (let n = 1; n <= 25; n += 1) show('read', (await pool.query('SELECT n FROM numbers WHERE n = ?', [n]))[0]);
  await pool.end();
  console.log('end');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
