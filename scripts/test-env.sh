#!/bin/sh
# Runs the command given as arguments with what the tests need: RAMSPLIT_TEST_MYSQLD and RAMSPLIT_TEST_MARIADBD
# name real servers, RAMSPLIT_TEST_MYSQL_SUITE and RAMSPLIT_TEST_MARIADB_SUITE those that come with their own test
# suites, RAMSPLIT_TEST_DRIVERS the folder of drivers (set beforehand, they win), and promtool is on PATH. Fetches
# what is missing, see the scripts called.
set -eu

here=$(dirname "$0")
RAMSPLIT_TEST_MYSQLD=${RAMSPLIT_TEST_MYSQLD:-$("$here/mysql-server.sh")}
RAMSPLIT_TEST_MARIADBD=${RAMSPLIT_TEST_MARIADBD:-$("$here/mariadb-server.sh")}
RAMSPLIT_TEST_MYSQL_SUITE=${RAMSPLIT_TEST_MYSQL_SUITE:-$("$here/mysql-server.sh" suite)}
RAMSPLIT_TEST_MARIADB_SUITE=${RAMSPLIT_TEST_MARIADB_SUITE:-$("$here/mariadb-server.sh" suite)}
RAMSPLIT_TEST_DRIVERS=${RAMSPLIT_TEST_DRIVERS:-$("$here/drivers.sh")}
promtool=$("$here/promtool.sh")
PATH=$PATH:$(dirname "$promtool")
export RAMSPLIT_TEST_MYSQLD RAMSPLIT_TEST_MARIADBD RAMSPLIT_TEST_MYSQL_SUITE RAMSPLIT_TEST_MARIADB_SUITE
export RAMSPLIT_TEST_DRIVERS PATH
exec "$@"
