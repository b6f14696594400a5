#!/bin/sh
# Makes a MariaDB server (10.6 or newer) available and prints the path of mariadbd as its last line.
#
# A suitable mariadbd on the system is used as it is. Otherwise apt installs mariadb-server-core and
# mariadb-client from the release's own packages: programs only, no service is set up or started.
#
# RAMSPLIT_NO_INSTALL=1     install nothing: say what is missing and exit 1
set -eu

say() { echo "mariadb-server: $*" >&2; }
fail() { say "$*"; exit 1; }

is_mariadb() {
    case $("$1" --no-defaults --version 2>/dev/null) in
        *" Ver 10."[6-9].*MariaDB* | *" Ver 10."1[0-9].*MariaDB* | *" Ver 1"[1-9].*MariaDB*) true ;;
        *) false ;;
    esac
}

# On PATH, or in the usual places that a user's PATH may lack.
find_mariadbd() {
    for candidate in "$(command -v mariadbd || :)" /usr/sbin/mariadbd /usr/local/sbin/mariadbd \
        /usr/local/mariadb/bin/mariadbd; do
        if [ -x "$candidate" ] && is_mariadb "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    false
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Older releases carry the version in the package's name.
newest() {
    apt-cache search --names-only "^$1(-[0-9.]+)?\$" | cut -d ' ' -f 1 | sort -V | tail -n 1
}

if find_mariadbd; then exit 0; fi
what="the packages mariadb-server-core and mariadb-client (about 20 MB, no service)"
command -v apt-get >/dev/null || fail "no MariaDB server here and no apt; put a mariadbd (10.6 or newer) on PATH"
if [ -n "${RAMSPLIT_NO_INSTALL:-}" ]; then
    fail "no MariaDB server here; missing: $what. Unset RAMSPLIT_NO_INSTALL to have apt install them"
fi
say "no MariaDB server here: apt installs $what"
say "RAMSPLIT_NO_INSTALL=1 says no"
as_root apt-get -qq -o Acquire::Retries=3 update >&2
server=$(newest mariadb-server-core)
client=$(newest mariadb-client)
[ -n "$server" ] || fail "this release has no package mariadb-server-core; put a mariadbd on PATH"
as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 install \
    --no-install-recommends "$server" "$client" >&2
find_mariadbd || fail "no working mariadbd (10.6 or newer) after the installation"
