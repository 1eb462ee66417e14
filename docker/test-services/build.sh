#!/bin/sh
# Builds the Redis and PostgreSQL images that the tests use where no image registry answers.
# Usage: docker/test-services/build.sh      See README.md beside this file.
set -eu

here="$(cd "$(dirname "$0")" && pwd)"
base="${CRB_BASE_IMAGE:-crb/base:bookworm}"

command -v docker >/dev/null 2>&1 || { echo "test services: the docker client is missing" >&2; exit 1; }
docker image inspect "$base" >/dev/null 2>&1 || {
    echo "test services: there is no image $base; run \`make base-image\` first" >&2
    exit 1
}
for service in redis postgresql; do
    set -- --build-arg "BASE_IMAGE=$base" --tag "crb/test-$service:bookworm"
    [ -z "${CRB_BUILD_NETWORK:-}" ] || set -- "$@" --network "$CRB_BUILD_NETWORK"
    echo "test services: building crb/test-$service:bookworm" >&2
    # The classic builder comes with every engine; buildx does not. Output is shown only when the build fails.
    log="$(mktemp)"
    if ! DOCKER_BUILDKIT=0 docker build "$@" "$here/$service" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        echo "test services: crb/test-$service:bookworm could not be built" >&2
        exit 1
    fi
    rm -f "$log"
done
