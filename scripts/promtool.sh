#!/bin/sh
# Makes promtool, the checker of metrics pages, available and prints its path as its last line.
#
# A promtool on PATH is used as it is. Otherwise the program is taken out of the release's package prometheus
# and put into ${XDG_CACHE_HOME:-~/.cache}/ramsplit/bin: the package itself would start a service.
#
# RAMSPLIT_NO_INSTALL=1     download nothing: say what is missing and exit 1
set -eu

home=${XDG_CACHE_HOME:-$HOME/.cache}/ramsplit
promtool=$home/bin/promtool

say() { echo "promtool: $*" >&2; }
fail() { say "$*"; exit 1; }

if command -v promtool; then exit 0; fi
if [ -x "$promtool" ]; then echo "$promtool"; exit 0; fi
command -v apt-get >/dev/null || fail "no promtool here and no apt; put promtool on PATH"
if [ -n "${RAMSPLIT_NO_INSTALL:-}" ]; then
    fail "no promtool here; it is in the package prometheus. Unset RAMSPLIT_NO_INSTALL to have it fetched"
fi
say "no promtool here: taking it out of the package prometheus into $home/bin"
mkdir -p "$home/bin"
work=$(mktemp -d "$home/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"
# A machine whose package lists were never fetched has lists of its own made here, without root rights.
mkdir -p lists/partial
apt() { apt-get -qq -o Dir::State::lists="$work/lists" -o Dir::Cache="$work" -o Acquire::Retries=3 -o "APT::Sandbox::User=$(id -un)" "$@" >&2; }
apt update
apt download prometheus
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
mv usr/bin/promtool "$promtool"
"$promtool" --version >&2 || fail "the fetched promtool does not run"
echo "$promtool"
