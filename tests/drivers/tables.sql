DROP TABLE IF EXISTS items, typed, files

DROP PROCEDURE IF EXISTS two_results

DROP PROCEDURE IF EXISTS twice

CREATE TABLE items (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50)) CHARACTER SET utf8mb4

CREATE TABLE files (id INT PRIMARY KEY, data LONGBLOB)

CREATE TABLE typed (
    id INT PRIMARY KEY, ti TINYINT, si SMALLINT, mi MEDIUMINT, bi BIGINT, bu BIGINT UNSIGNED, dc DECIMAL(20,6),
    fl FLOAT, db DOUBLE, da DATE, dt DATETIME(6), tm TIME(3), ts TIMESTAMP NULL, yr YEAR, ch CHAR(10),
    vc VARCHAR(100), tx TEXT, bn BINARY(4), bl BLOB, js JSON, en ENUM('a','b'), st SET('x','y','z'), bt BIT(5)
) CHARACTER SET utf8mb4

INSERT INTO typed VALUES
    (1, -128, -32768, -8388608, -9223372036854775808, 18446744073709551615, -12345678901234.567891, 1.5, -2.25,
        '1999-12-31', '2026-02-28 23:59:59.123456', '-23:59:58.999', '2020-01-01 12:00:00', 2155, 'char',
        'it''s "quoted" \\ 😀', 'text', 0x00010200, 0x00FF00, '{"a": [1, 2.5, null]}', 'b', 'x,z', b'10101'),
    (2, 0, 0, 0, 0, 0, 0, 0, 0, '2000-01-01', '2000-01-01', '0:0:1', '2000-01-01', 2000, '', '', '', '', '', '[]',
        'a', '', 0)

INSERT INTO typed (id) VALUES (3)

CREATE PROCEDURE two_results(n INT) BEGIN SELECT n AS a; SELECT n + 1 AS b, 'x' AS c; END

CREATE PROCEDURE twice(IN a INT, OUT b INT) SET b = 2 * a
