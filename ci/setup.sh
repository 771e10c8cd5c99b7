#!/bin/sh
# Installs what a Rust toolchain does not bring: a C compiler, which also links every Rust program,
# and a PostgreSQL server, of which tests start throwaway clusters. Changes nothing where both are
# there, and asks nothing. Not a Rust program, since without a linker there is none.
set -eu

has_compiler() {
  ${CC:-cc} --version >/dev/null 2>&1
}

# Where package managers put the programs of a server.
has_server() {
  for initdb in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
    /opt/homebrew/opt/postgresql*/bin/initdb /usr/local/opt/postgresql*/bin/initdb; do
    [ -x "$initdb" ] && return 0
  done
  command -v initdb >/dev/null 2>&1
}

# install MANAGER: installs what is missing. Debian's server package also starts a server of the
# system; nothing here talks to it.
install() {
  case $1 in
    apt-get) compiler=build-essential server=postgresql ;;
    dnf) compiler="gcc glibc-devel" server=postgresql-server ;;
    brew) compiler=gcc server=postgresql@16 ;;
  esac
  packages=
  has_compiler || packages="$packages $compiler"
  has_server || packages="$packages $server"
  case $1 in
    apt-get) line="apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y$packages" ;;
    dnf) line="dnf install -y$packages" ;;
    brew) line="brew install$packages" ;;
  esac
  if [ "$1" != brew ] && [ "$(id -u)" != 0 ]; then
    echo "error: missing$packages: run as root: $line" >&2
    exit 5
  fi
  echo "missing$packages: running $line"
  sh -c "$line" </dev/null
}

if has_compiler && has_server; then
  exit 0
fi
for manager in apt-get dnf brew; do
  if command -v "$manager" >/dev/null 2>&1; then
    install "$manager"
    has_compiler && has_server && exit 0
    echo "error: $manager installed$packages, and something is still missing" >&2
    exit 5
  fi
done
echo "error: install a C compiler (cc on PATH) and a PostgreSQL server (initdb on PATH)" >&2
exit 5
