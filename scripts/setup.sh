#!/usr/bin/env bash
# Sets a Debian 12 machine up for what is asked: `setup.sh run` for the demonstration, `setup.sh test` for `make test`, `setup.sh full` for every suite,
# `setup.sh tools` for cargo-deny alone. Says what it installs, asks nothing, and does nothing where nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_DENY=0.20.2
PJDFSTEST=0.2.2
FSX=0.3.2

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

# cargo_tool CRATE VERSION [OPTION…]: a crate's program in target/tools, without optimisation, which none of them needs.
cargo_tool() {
    local crate=$1 version=$2
    shift 2
    target/tools/bin/"$crate" --version 2>/dev/null | grep -qx "$crate $version" && return 0
    say "building $crate $version into target/tools"
    CARGO_TARGET_DIR=target/tools/build CARGO_PROFILE_DEV_DEBUG=0 cargo install "$crate@$version" --locked --debug "$@" --root target/tools --quiet
    rm -rf target/tools/build
}

# Without its default features it takes 43 s on two cores instead of minutes.
tools() { cargo_tool cargo-deny "$CARGO_DENY" --no-default-features; }

# Suites for file systems, for the guest of `conformance/vm/run posix`.
file_system_suites() {
    cargo_tool pjdfstest "$PJDFSTEST"
    cargo_tool fsx "$FSX"
}

case "${1:-}" in
    run) packages scripts/packages-run.txt; rust ;;
    test) packages scripts/packages-run.txt scripts/packages-test.txt conformance/vm/packages.txt; rust; tools ;;
    full) scripts/setup.sh test; packages scripts/packages-full.txt; file_system_suites ;;
    tools) rust; tools ;;
    *) fail 'usage: setup.sh run|test|full|tools' ;;
esac
