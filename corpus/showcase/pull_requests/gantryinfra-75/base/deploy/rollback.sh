#!/usr/bin/env bash
# Usage: rollback.sh HOST
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/lib.sh"

host=${1:?usage: rollback.sh HOST}

image=$(on_host "$host" cat "$STATE")
tag=${image##*:}
log "$host: rolling back to $tag"
on_host "$host" docker rm -f gantry
start_container "$host" "$tag"
wait_healthy "$host"
