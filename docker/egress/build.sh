#!/bin/sh
# Builds the egress proxy's image.
# Usage: docker/egress/build.sh      See README.md beside this file.
set -eu

here="$(cd "$(dirname "$0")" && pwd)"
tag="${CRB_EGRESS_IMAGE:-crb/egress:bookworm}"
base="${CRB_BASE_IMAGE:-}"

fail() { echo "egress image: $*" >&2; exit 1; }

command -v docker >/dev/null 2>&1 || fail "the docker client is missing; install the package docker-cli or docker.io"
docker version >/dev/null 2>&1 || fail "the Docker engine does not answer; start it (crb doctor says more)"
if [ -z "$base" ]; then
    base="debian:bookworm-slim"
    if docker image inspect crb/base:bookworm >/dev/null 2>&1; then base="crb/base:bookworm"; fi
fi
set -- --build-arg "BASE_IMAGE=$base" --tag "$tag"
[ -z "${CRB_BUILD_NETWORK:-}" ] || set -- "$@" --network "$CRB_BUILD_NETWORK"
echo "egress image: building $tag on $base" >&2
# The classic builder comes with every engine; buildx does not. Output is shown only when the build fails.
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if ! DOCKER_BUILDKIT=0 docker build "$@" "$here" >"$log" 2>&1; then
    cat "$log" >&2
    fail "$tag could not be built; CRB_BASE_IMAGE names another Debian image, CRB_BUILD_NETWORK=host another network"
fi
