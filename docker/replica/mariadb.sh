#!/bin/bash
# A MariaDB replica whose data directory is empty whenever it starts, since it is in memory: copies the primary by a
# consistent dump, follows it, and stays in the foreground. Arguments are passed on to mariadbd. Ends with its exit status;
# whoever runs it starts it again, and it fills itself again. What it takes from the environment: see common.sh.
# shellcheck source=docker/replica/common.sh
. "$(dirname "$0")/common.sh"

write_login() {
    local password=${REPLICATION_PASSWORD//\\/\\\\}
    cat >"$work/login.cnf" <<EOF
[client]
host=$PRIMARY_HOST
port=$PRIMARY_PORT
user=$REPLICATION_USER
password="${password//\"/\\\"}"
EOF
}

# After the dump the accounts are the primary's: all of it is said in one session. The position is set again, as the table
# that keeps it came with the dump too.
statements() {
    mariadb-dump --defaults-extra-file="$work/login.cnf" --all-databases --single-transaction --gtid --master-data=1 \
        --routines --events --triggers --hex-blob
    cat <<EOF
SET @position = @@GLOBAL.gtid_slave_pos;
SET GLOBAL gtid_slave_pos = @position;
CHANGE MASTER TO MASTER_HOST = $(quoted "$PRIMARY_HOST"), MASTER_PORT = $PRIMARY_PORT, MASTER_USER = $(quoted "$REPLICATION_USER"), MASTER_PASSWORD = $(quoted "$REPLICATION_PASSWORD"), MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1;
SHUTDOWN;
EOF
}

copy() {
    write_login
    mariadb-install-db --no-defaults --datadir="$DATADIR" --auth-root-authentication-method=normal --skip-test-db "$@" \
        >"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; return 1; }
    start mariadbd --no-defaults --datadir="$DATADIR" --socket="$work/copy.sock" --skip-networking \
        --pid-file="$work/copy.pid" --skip-slave-start --relay-log=relay "$@"
    until mariadb-admin --no-defaults --user=root --socket="$work/copy.sock" ping >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.2
    done
    local status=0
    statements | mariadb --no-defaults --user=root --socket="$work/copy.sock" || status=$?
    [ "$status" = 0 ] || kill -TERM "$server"
    wait_for_server || status=$?
    return "$status"
}

serve() {
    start mariadbd --no-defaults --datadir="$DATADIR" --socket="$DATADIR/mysqld.sock" --pid-file="$DATADIR/mysqld.pid" \
        --read-only=ON --relay-log=relay --concurrent-insert=NEVER "$@"
}

replica "$@"
