#!/bin/sh
# Makes a real MySQL server (8.0 or newer, not MariaDB) available and prints the path of mysqld as its last line.
#
# A suitable mysqld on the system is used as it is. Otherwise the packages of MySQL's server and client programs
# are downloaded by apt (signatures checked) and unpacked under ${XDG_CACHE_HOME:-~/.cache}/ramsplit/mysql, where
# they run in place by the loader and libraries that were unpacked with them. Nothing is installed into the
# system and no root rights are needed. Ubuntu's own release has MySQL; Debian has it in unstable only, which
# is why the C library comes along.
#
# With the argument `suite`, the server's own test suite is unpacked beside it, in a tree of their own (mysql-suite,
# 340 MB to download), since the two must be of one version.
#
# RAMSPLIT_NO_INSTALL=1     download nothing: say what is missing and exit 1
# RAMSPLIT_DEBIAN_MIRROR    where Debian unstable is fetched from (default: the mirror of the system's apt sources)
set -eu

home=${XDG_CACHE_HOME:-$HOME/.cache}/ramsplit
suite=${1:-}
case $suite in
    '') tree=$home/mysql ;;
    suite) tree=$home/mysql-suite ;;
    *) echo "usage: mysql-server.sh [suite]" >&2; exit 2 ;;
esac

say() { echo "mysql-server: $*" >&2; }
fail() { say "$*"; exit 1; }

is_mysql() {
    case $("$1" --no-defaults --version 2>/dev/null) in
        *MariaDB*) false ;;
        *" Ver 8."* | *" Ver 9."* | *" Ver "[1-9][0-9].*) true ;;
        *) false ;;
    esac
}

# The first suitable mysqld: on PATH, in the usual places that a user's PATH may lack, or unpacked before.
find_mysqld() {
    # Positional parameters are all the lists that sh has.
    set -- "$tree/bin/mysqld"
    [ -n "$suite" ] ||
        set -- "$(command -v mysqld || :)" /usr/sbin/mysqld /usr/local/sbin/mysqld /usr/local/mysql/bin/mysqld "$@"
    for candidate in "$@"; do
        if [ -x "$candidate" ] && is_mysql "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    false
}

# The mirror that the system's own sources name, e.g. http://deb.debian.org/debian.
debian_mirror() {
    mirror=$(apt-get update --print-uris | sed -n "s|^'\(.*\)/dists/$VERSION_CODENAME-updates/InRelease'.*|\1|p" | head -n 1)
    echo "${mirror:-http://deb.debian.org/debian}"
}

# An apt of its own in folder $1: it shares the system's keys, proxies and credentials, but nothing that it
# changes. It believes that only perl is installed (MySQL's helper scripts want it, its programs do not).
write_apt_conf() {
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    cat >"$1/status" <<EOF
Package: perl
Status: install ok installed
Architecture: $(dpkg --print-architecture)
Multi-Arch: allowed
Version: 999

EOF
    cat >"$1/apt.conf" <<EOF
Dir::State "$1";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
Acquire::Retries "3";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
EOF
    [ "$ID" = debian ] || return 0
    echo "deb ${RAMSPLIT_DEBIAN_MIRROR:-$(debian_mirror)} unstable main" >"$1/sources.list"
    # A mirror that is a snapshot serves a Release file past its date; its signature still holds.
    cat >>"$1/apt.conf" <<EOF
Dir::Etc::sourcelist "$1/sources.list";
Dir::Etc::sourceparts "/dev/null";
Acquire::Check-Valid-Until "false";
EOF
}

# Names of the packages to fetch: newest versioned server, and the clients beside it. Which of the client
# packages holds mysqladmin and mysqlbinlog differs between releases, so both are taken where they exist.
package_names() {
    server=$(apt-cache search --names-only '^mysql-server-core(-[0-9.]+)?$' | cut -d ' ' -f 1 | sort -V | tail -n 1)
    [ -n "$server" ] || return 1
    suffix=${server#mysql-server-core}
    echo "$server" "mysql-client-core$suffix"
    apt-cache search --names-only "^mysql-client$suffix\$" | cut -d ' ' -f 1
    [ -z "$suite" ] || apt-cache search --names-only '^mysql-testsuite(-[0-9.]+)?$' | cut -d ' ' -f 1 | sort -V | tail -n 1
}

# Writes bin/run into the tree $1 and links every MySQL program's name to it.
write_wrappers() {
    loader=$(cd "$1" && find -- * -path '*lib/*-linux-gnu*/ld-linux*.so.*' | head -n 1)
    [ -n "$loader" ] || fail "the unpacked packages have no program loader"
    arch=$(basename "$(dirname "$loader")")
    mkdir -p "$1/bin"
    cat >"$1/bin/run" <<EOF
#!/bin/sh
# Runs the program that this script was called as in place, by the tree's own loader and libraries.
R=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")
name=\$(basename "\$0")
for exe in "\$R/usr/sbin/\$name" "\$R/usr/bin/\$name" "\$R/usr/lib/mysql-test/bin/\$name"; do
    [ ! -x "\$exe" ] || break
done
if [ "\$name" = mysqld ]; then
    # The option that chooses the defaults file must stay first; the caller's own options come last and win.
    # The built-in secure-file-priv is a folder that only an installed package has.
    case \${1:-} in
        --no-defaults | --defaults-file=* | --defaults-extra-file=*) first=\$1; shift ;;
        *) first=--no-defaults ;;
    esac
    set -- "\$first" --basedir="\$R/usr" --plugin-dir="\$R/usr/lib/mysql/plugin" \\
        --lc-messages-dir="\$R/usr/share/mysql" --character-sets-dir="\$R/usr/share/mysql/charsets" \\
        --secure-file-priv=NULL "\$@"
fi
exec "\$R/$loader" --argv0 "\$exe" \\
    --library-path "\$R/usr/lib/$arch:\$R/lib/$arch:\$R/usr/lib/mysql/private" "\$exe" "\$@"
EOF
    chmod +x "$1/bin/run"
    for program in "$1"/usr/bin/mysql* "$1"/usr/sbin/mysqld "$1"/usr/lib/mysql-test/bin/*; do
        [ -x "$program" ] || continue
        # Scripts among them want the system's own layout.
        if [ "$(head -c 2 "$program")" = '#!' ]; then continue; fi
        ln -sf run "$1/bin/$(basename "$program")"
    done
}

unpack() {
    work=$(mktemp -d "$home/unpack.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    write_apt_conf "$work"
    export APT_CONFIG="$work/apt.conf"
    apt-get -qq update >&2
    packages=$(package_names) || fail "this release has no package mysql-server-core; put a mysqld on PATH"
    # shellcheck disable=SC2086 # a list of names
    apt-get -qq -y install --download-only $packages >&2
    mkdir "$work/tree"
    for deb in "$work"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/tree" --no-same-owner --keep-directory-symlink \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
    done
    write_wrappers "$work/tree"
    is_mysql "$work/tree/bin/mysqld" || fail "the unpacked mysqld does not run"
    rm -rf "$tree"
    mv "$work/tree" "$tree"
}

if find_mysqld; then exit 0; fi
[ -r /etc/os-release ] || fail "no MySQL server here and no /etc/os-release; put a mysqld (8.0 or newer) on PATH"
# shellcheck disable=SC1091 # a system file
. /etc/os-release
case $ID in
    debian | ubuntu) ;;
    *) fail "no MySQL server here, and $ID is not Debian or Ubuntu; put a mysqld (8.0 or newer) on PATH" ;;
esac
what="the packages mysql-server-core and mysql-client-core with their libraries (about 70 MB)"
[ -z "$suite" ] || what="MySQL's server, clients and test suite (about 400 MB)"
if [ -n "${RAMSPLIT_NO_INSTALL:-}" ]; then
    fail "no MySQL server here; missing: $what. Unset RAMSPLIT_NO_INSTALL to have them unpacked in $tree"
fi
mkdir -p "$home"
# One at a time: a second caller waits here and finds the work done.
exec 9>"$tree.lock"
flock 9
if find_mysqld; then exit 0; fi
say "unpacking $what in $tree"
say "nothing is installed into the system; RAMSPLIT_NO_INSTALL=1 says no"
unpack
find_mysqld || fail "no working mysqld in $tree"
