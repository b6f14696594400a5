#!/bin/bash
# A replica whose data directory is empty whenever it starts, since it is in memory: clones the primary, follows it, and
# stays in the foreground. Arguments are passed on to mysqld. Ends with mysqld's exit status; whoever runs it starts it
# again, and it fills itself again.
#
# PRIMARY_HOST, PRIMARY_PORT (3306)            whom to clone and follow
# REPLICATION_USER, REPLICATION_PASSWORD       an account there with REPLICATION SLAVE and BACKUP_ADMIN
# DATADIR (/var/lib/mysql)                     where the data goes
# CLONE_PAUSE (5)                              seconds until a failed clone is tried again, more each time
set -euo pipefail

: "${PRIMARY_HOST:?}" "${REPLICATION_USER:?}" "${REPLICATION_PASSWORD:?}"
PRIMARY_PORT=${PRIMARY_PORT:-3306}
DATADIR=${DATADIR:-/var/lib/mysql}
CLONE_PAUSE=${CLONE_PAUSE:-5}
# The statements hold a password: nobody else reads them.
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

# Runs mysqld until it ends; a signal to this script is passed on, and waited for.
run() {
    "$@" &
    server=$!
    local status=0
    wait "$server" || status=$?
    while kill -0 "$server" 2>/dev/null; do
        status=0
        wait "$server" || status=$?
    done
    server=
    return "$status"
}

# The first lines of the server's own start, as an init file wants them: a statement a line.
write_clone() {
    cat >"$work/clone.sql" <<EOF
SET GLOBAL clone_valid_donor_list = $(quoted "$PRIMARY_HOST:$PRIMARY_PORT");
CLONE INSTANCE FROM $(quoted "$REPLICATION_USER")@$(quoted "$PRIMARY_HOST"):$PRIMARY_PORT IDENTIFIED BY $(quoted "$REPLICATION_PASSWORD");
EOF
}

write_follow() {
    cat >"$work/follow.sql" <<EOF
CHANGE REPLICATION SOURCE TO SOURCE_HOST = $(quoted "$PRIMARY_HOST"), SOURCE_PORT = $PRIMARY_PORT, SOURCE_USER = $(quoted "$REPLICATION_USER"), SOURCE_PASSWORD = $(quoted "$REPLICATION_PASSWORD"), SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1;
START REPLICA;
EOF
}

is_empty() { [ -z "$(ls -A "$DATADIR" 2>/dev/null)" ]; }

empty() { find "$DATADIR" -mindepth 1 -delete; }

# A clone ends in a restart: with a parent that is told of, mysqld ends with status 16 instead of starting itself.
clone() {
    say "cloning $PRIMARY_HOST:$PRIMARY_PORT"
    mysqld --no-defaults --initialize-insecure --datadir="$DATADIR" "$@" || return 1
    local status=0
    MYSQLD_PARENT_PID=$$ run mysqld --no-defaults --datadir="$DATADIR" --socket="$work/clone.sock" --skip-networking \
        --mysqlx=OFF --pid-file="$work/clone.pid" --plugin-load-add=mysql_clone.so \
        --init-file="$work/clone.sql" "$@" || status=$?
    [ "$status" = 16 ]
}

fill() {
    local pause=$CLONE_PAUSE
    until clone "$@"; do
        say "the clone failed; trying again in $pause s"
        empty
        sleep "$pause"
        pause=$((pause * 2 > 60 ? 60 : pause * 2))
    done
}

mkdir -p "$DATADIR"
write_clone
write_follow
# What another run left of a clone that did not end is of no use, and of no known age.
if is_empty || [ ! -e "$DATADIR/ramsplit-filled" ]; then
    empty
    started=$SECONDS
    fill "$@"
    touch "$DATADIR/ramsplit-filled"
    say "filled in $((SECONDS - started)) s"
fi
status=0
MYSQLD_PARENT_PID=$$ run mysqld --no-defaults --datadir="$DATADIR" --gtid-mode=ON --enforce-gtid-consistency=ON \
    --read-only=ON --super-read-only=ON --skip-replica-start --relay-log=relay --concurrent-insert=NEVER \
    --socket="$DATADIR/mysqld.sock" --pid-file="$DATADIR/mysqld.pid" --init-file="$work/follow.sql" "$@" || status=$?
exit "$status"
