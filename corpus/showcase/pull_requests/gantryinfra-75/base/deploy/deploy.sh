#!/usr/bin/env bash
# Usage: deploy.sh TAG
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/lib.sh"

tag=${1:?usage: deploy.sh TAG}

while read -r host <&3; do
  log "$host: deploying $tag"
  on_host "$host" docker pull "$REGISTRY:$tag"
  on_host "$host" "docker inspect -f '{{.Config.Image}}' gantry > $STATE"
  on_host "$host" docker rm -f gantry
  start_container "$host" "$tag"
  wait_healthy "$host"
done 3<"$here/hosts.txt"

log "deployed $tag"
