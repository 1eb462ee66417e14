#!/bin/sh
# Builds crb/base:bookworm from Debian packages, without any image registry.
# Usage: docker/base/build.sh [--force]      See README.md beside this file.
set -eu

tag="${CRB_BASE_TAG:-crb/base:bookworm}"
suite="bookworm"
packages="python3,python3-pip,python3-venv,git,ca-certificates"

say() { printf '%s\n' "base image: $*" >&2; }
fail() { say "$*"; exit 1; }

# The image is rebuilt when this script, the certificates of the host or the mirror change.
mirror="${CRB_DEBIAN_MIRROR:-http://deb.debian.org/debian}"
bundle="${CRB_CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}"
[ -r "$bundle" ] || bundle=""
command -v docker >/dev/null 2>&1 || fail "the docker client is missing; install the package docker-cli or docker.io"
docker version >/dev/null 2>&1 || fail "the Docker engine does not answer; start it (crb doctor says more)"
recipe="$({ cat "$0"; [ -z "$bundle" ] || cat "$bundle"; printf '%s' "$mirror"; } | sha256sum | cut -c1-32)"

if [ "${1:-}" != "--force" ]; then
    have="$(docker image inspect --format '{{ index .Config.Labels "crb.base.recipe" }}' "$tag" 2>/dev/null || true)"
    if [ "$have" = "$recipe" ]; then
        say "$tag is up to date"
        exit 0
    fi
fi

sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || fail "debootstrap needs root; run this script as root"
    sudo="sudo"
fi
command -v debootstrap >/dev/null 2>&1 || fail "debootstrap is missing; install the package debootstrap"

work="$(mktemp -d)"
# The tree belongs to root, hence $sudo; --one-file-system keeps a forgotten mount of the host safe.
trap '$sudo rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tree="$work/tree"

say "installing Debian $suite (one to three minutes)"
$sudo debootstrap --variant=minbase --include="$packages" "$suite" "$tree" "$mirror" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    fail "debootstrap failed; set CRB_DEBIAN_MIRROR to a Debian mirror that this machine reaches"
}

if [ -n "$bundle" ]; then
    # update-ca-certificates replaces the bundle whenever the package is configured again; keep the host's as a source.
    $sudo install -D -m 0644 "$bundle" "$tree/etc/ssl/certs/ca-certificates.crt"
fi
$sudo rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/var/log/* \
    "$tree"/usr/share/doc/* "$tree"/usr/share/man/* "$tree"/usr/share/locale/* "$tree"/debootstrap
$sudo find "$tree" -depth -name __pycache__ -exec rm -rf {} +

say "importing as $tag"
$sudo tar --numeric-owner --one-file-system --exclude=./dev --exclude=./proc --exclude=./sys \
    -C "$tree" -cf "$work/tree.tar" .
docker import \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'ENV LANG=C.UTF-8' \
    --change 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' \
    --change 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' \
    --change 'CMD ["/bin/bash"]' \
    --change "LABEL crb.base.recipe=$recipe" \
    "$work/tree.tar" "$tag" >/dev/null
say "$tag is ready ($(docker image inspect --format '{{ .Id }}' "$tag"))"
