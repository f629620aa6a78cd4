#!/usr/bin/env bash
# Sets a Debian 12 machine up for what is asked: `setup.sh run` for the demonstration, `setup.sh test` for every suite, `setup.sh tools` for
# cargo-deny alone. Says what it installs, asks nothing, and does nothing where nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_DENY=0.20.2

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The packages of some lists that are not installed.
missing() {
    cat "$@" | sort -u | while read -r package; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s ' "$package"
    done
}

# Packages by apt, with sudo where we are not root.
packages() {
    local need
    need=$(missing "$@")
    [ -n "$need" ] || return 0
    command -v apt-get >/dev/null || fail "these Debian packages are needed, and there is no apt-get: $need"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "root is needed to install packages; as root: apt-get install $need"
        as_root=(sudo)
    fi
    say "installing Debian packages: $need"
    "${as_root[@]}" apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $need >/dev/null
}

rust() {
    command -v cargo >/dev/null || fail 'Rust is needed, 1.95 or newer: https://rustup.rs'
    local have want
    want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    have=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$want" "$have" | sort -V | head -n 1)" = "$want" ] || fail "Rust $want or newer is needed, this is $have: rustup update stable"
}

# cargo-deny without optimisation and default features: 43 s on two cores instead of minutes.
tools() {
    target/tools/bin/cargo-deny --version 2>/dev/null | grep -qx "cargo-deny $CARGO_DENY" && return 0
    say "building cargo-deny $CARGO_DENY into target/tools"
    CARGO_TARGET_DIR=target/tools/build CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install cargo-deny@"$CARGO_DENY" --locked --debug --no-default-features --root target/tools --quiet
    rm -rf target/tools/build
}

case "${1:-}" in
    run) packages scripts/packages-run.txt; rust ;;
    test) packages scripts/packages-run.txt scripts/packages-test.txt conformance/vm/packages.txt; rust; tools ;;
    tools) rust; tools ;;
    *) fail 'usage: setup.sh run|test|tools' ;;
esac
