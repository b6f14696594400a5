#!/bin/sh
# Makes a MariaDB server (10.6 or newer) available and prints the path of mariadbd as its last line.
#
# A suitable mariadbd on the system is used as it is. Otherwise apt installs mariadb-server-core and
# mariadb-client from the release's own packages: programs only, no service is set up or started.
#
# With the argument `suite`, the server's own test suite is unpacked with the server of the same version under
# ${XDG_CACHE_HOME:-~/.cache}/ramsplit/mariadb-suite, where both run in place; the path is that of this server then.
#
# RAMSPLIT_NO_INSTALL=1     install nothing: say what is missing and exit 1
set -eu

tree=${XDG_CACHE_HOME:-$HOME/.cache}/ramsplit/mariadb-suite

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

# Older releases carry the version in the package's name; where both are, that name is of an older one still.
newest() {
    names=$(apt-cache search --names-only "^$1(-[0-9.]+)?\$" | cut -d ' ' -f 1)
    echo "$names" | grep -x "$1" || echo "$names" | sort -V | tail -n 1
}

# The programs run in place with the system's libraries, some of which only they need.
install_libraries() {
    libraries=$(apt-cache depends "$(newest mariadb-test)" "$(newest mariadb-server-core)" |
        sed -n 's/^ *Depends: \(lib[^<>]*\)$/\1/p' | sort -u)
    # shellcheck disable=SC2086 # a list of names
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 install \
        --no-install-recommends $libraries >&2
}

unpack_suite() {
    work=$(mktemp -d "$(dirname "$tree")/unpack.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    [ -n "$(newest mariadb-test)" ] || as_root apt-get -qq -o Acquire::Retries=3 update >&2
    [ -n "$(newest mariadb-test)" ] || fail "this release has no package mariadb-test"
    install_libraries
    for name in test test-data server server-core client client-core; do
        package=$(newest "mariadb-$name")
        # Where apt reads as a user of its own, it may not write here, and says so.
        [ -z "$package" ] || (cd "$work" && apt-get -q -o Acquire::Retries=3 download "$package" >&2)
    done
    for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/tree"; done
    mv "$work/tree" "$tree"
}

if [ "${1:-}" = suite ]; then
    "$0" >/dev/null
    mkdir -p "$(dirname "$tree")"
    exec 9>"$tree.lock"
    flock 9
    if [ ! -x "$tree/usr/sbin/mariadbd" ]; then
        [ -z "${RAMSPLIT_NO_INSTALL:-}" ] || fail "missing: MariaDB's test suite. Unset RAMSPLIT_NO_INSTALL to have it unpacked in $tree"
        say "unpacking MariaDB's server and test suite (about 40 MB to download) in $tree"
        unpack_suite
    fi
    echo "$tree/usr/sbin/mariadbd"
    exit 0
fi
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
