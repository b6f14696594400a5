#!/bin/bash
# What both families' entry points share; they source it, give `copy` and `serve`, and call `replica`.
#
# PRIMARY_HOST, PRIMARY_PORT (3306)            whom to copy and follow
# REPLICATION_USER, REPLICATION_PASSWORD       an account there, with the rights that docker/primary gives it
# DATADIR (/var/lib/mysql)                     where the data goes
# COPY_PAUSE (5)                               seconds until a failed copy is tried again, more each time
set -euo pipefail

: "${PRIMARY_HOST:?}" "${REPLICATION_USER:?}" "${REPLICATION_PASSWORD:?}"
PRIMARY_PORT=${PRIMARY_PORT:-3306}
DATADIR=${DATADIR:-/var/lib/mysql}
# The files hold a password: nobody else reads them.
umask 077
work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill -TERM "$server" 2>/dev/null || true; fi' TERM INT
trap 'rm -rf "$work"' EXIT

say() { echo "replica: $*" >&2; }

# A quote in a value must not end the string; NO_BACKSLASH_ESCAPES is not in force where these are read.
quoted() {
    local value=${1//\\/\\\\}
    printf "'%s'" "${value//\'/\\\'}"
}

start() {
    "$@" &
    server=$!
}

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

is_empty() { [ -z "$(ls -A "$DATADIR" 2>/dev/null)" ]; }

empty() { find "$DATADIR" -mindepth 1 -delete; }

fill() {
    local pause=${COPY_PAUSE:-5} started=$SECONDS
    until say "copying $PRIMARY_HOST:$PRIMARY_PORT" && copy "$@"; do
        say "the copy failed; trying again in $pause s"
        empty
        sleep "$pause"
        pause=$((pause * 2 > 60 ? 60 : pause * 2))
    done
    touch "$DATADIR/ramsplit-filled"
    say "filled in $((SECONDS - started)) s"
}

# Fills the data directory where it must be, and ends with the server's exit status.
replica() {
    mkdir -p "$DATADIR"
    # What another run left of a copy that did not end is of no use, and of no known age.
    if is_empty || [ ! -e "$DATADIR/ramsplit-filled" ]; then
        empty
        fill "$@"
    fi
    serve "$@"
    local status=0
    wait_for_server || status=$?
    exit "$status"
}
