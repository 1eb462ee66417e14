# shellcheck shell=bash
# Shared functions. Sourced by deploy.sh and rollback.sh.

REGISTRY=registry.gantry.example/gantry
# shellcheck disable=SC2034
STATE=/var/lib/gantry/previous

log() {
  printf '%s %s\n' "$(date -u +%H:%M:%S)" "$*" >&2
}

on_host() {
  local host=$1
  shift
  ssh -o BatchMode=yes "deploy@$host" "$@"
}

start_container() {
  local host=$1 tag=$2
  on_host "$host" docker run -d --name gantry --restart unless-stopped \
    -p 8080:8080 "$REGISTRY:$tag"
}

wait_healthy() {
  local host=$1 status
  for _ in $(seq 1 20); do
    status=$(on_host "$host" docker inspect -f '{{.State.Health.Status}}' gantry) || status=unknown
    if [ "$status" = healthy ]; then
      return 0
    fi
    sleep "${HEALTH_WAIT:-3}"
  done
  log "$host: not healthy (last status: $status)"
  return 1
}
