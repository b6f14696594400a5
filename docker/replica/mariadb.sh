#!/bin/bash
# A replica whose data directory is empty whenever it starts, since it is in memory: copies the primary by a consistent
# dump, follows it, and stays in the foreground. Arguments are passed on to mariadbd. Ends with its exit status; whoever
# runs it starts it again, and it fills itself again.
#
# PRIMARY_HOST, PRIMARY_PORT (3306)            whom to copy and follow
# REPLICATION_USER, REPLICATION_PASSWORD       an account there with REPLICATION SLAVE, BINLOG MONITOR, SELECT, SHOW VIEW,
#                                              TRIGGER, EVENT and RELOAD
# DATADIR (/var/lib/mysql)                     where the data goes
# COPY_PAUSE (5)                               seconds until a failed copy is tried again, more each time
set -euo pipefail

: "${PRIMARY_HOST:?}" "${REPLICATION_USER:?}" "${REPLICATION_PASSWORD:?}"
PRIMARY_PORT=${PRIMARY_PORT:-3306}
DATADIR=${DATADIR:-/var/lib/mysql}
COPY_PAUSE=${COPY_PAUSE:-5}
# The files hold a password: nobody else reads them.
umask 077
work=$(mktemp -d)
server=

say() { echo "replica: $*" >&2; }

# A quote in a value must not end the string; NO_BACKSLASH_ESCAPES is not in force where these are read.
quoted() {
    local value=${1//\\/\\\\}
    printf "'%s'" "${value//\'/\\\'}"
}

trap 'if [ -n "$server" ]; then kill -TERM "$server" 2>/dev/null || true; fi' TERM INT
trap 'rm -rf "$work"' EXIT

# Waits until the server ends; a signal to this script is passed on, and waited for.
wait_for_server() {
    local status=0
    wait "$server" || status=$?
    while kill -0 "$server" 2>/dev/null; do
        status=0
        wait "$server" || status=$?
    done
    server=
    return "$status"
}

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

dump() {
    mariadb-dump --defaults-extra-file="$work/login.cnf" --all-databases --single-transaction --gtid --master-data=1 \
        --routines --events --triggers --hex-blob
}

# After the dump the accounts are the primary's: all of it is said in one session. The position is set again, as the table
# that keeps it came with the dump too.
statements() {
    dump
    cat <<EOF
SET @position = @@GLOBAL.gtid_slave_pos;
SET GLOBAL gtid_slave_pos = @position;
CHANGE MASTER TO MASTER_HOST = $(quoted "$PRIMARY_HOST"), MASTER_PORT = $PRIMARY_PORT, MASTER_USER = $(quoted "$REPLICATION_USER"), MASTER_PASSWORD = $(quoted "$REPLICATION_PASSWORD"), MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1;
SHUTDOWN;
EOF
}

is_empty() { [ -z "$(ls -A "$DATADIR" 2>/dev/null)" ]; }

empty() { find "$DATADIR" -mindepth 1 -delete; }

copy() {
    say "copying $PRIMARY_HOST:$PRIMARY_PORT"
    mariadb-install-db --no-defaults --datadir="$DATADIR" --auth-root-authentication-method=normal --skip-test-db "$@" \
        >"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; return 1; }
    mariadbd --no-defaults --datadir="$DATADIR" --socket="$work/copy.sock" --skip-networking --pid-file="$work/copy.pid" \
        --skip-slave-start --relay-log=relay "$@" &
    server=$!
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

fill() {
    local pause=$COPY_PAUSE
    until copy "$@"; do
        say "the copy failed; trying again in $pause s"
        empty
        sleep "$pause"
        pause=$((pause * 2 > 60 ? 60 : pause * 2))
    done
}

mkdir -p "$DATADIR"
write_login
# What another run left of a copy that did not end is of no use, and of no known age.
if is_empty || [ ! -e "$DATADIR/ramsplit-filled" ]; then
    empty
    started=$SECONDS
    fill "$@"
    touch "$DATADIR/ramsplit-filled"
    say "filled in $((SECONDS - started)) s"
fi
status=0
mariadbd --no-defaults --datadir="$DATADIR" --read-only=ON --relay-log=relay --concurrent-insert=NEVER \
    --socket="$DATADIR/mysqld.sock" --pid-file="$DATADIR/mysqld.pid" "$@" &
server=$!
wait_for_server || status=$?
exit "$status"
