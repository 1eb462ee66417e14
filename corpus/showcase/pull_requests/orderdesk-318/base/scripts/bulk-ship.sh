#!/usr/bin/env bash
# Marks all orders of a picking list as shipped. Called by the warehouse each evening.
set -u

list="$1"
ids=$(paste -sd, "$list")
expected=$(wc -l < "$list")

response=$(curl --silent --fail \
  --data-urlencode "ids=$ids" \
  --data-urlencode "status=SHIPPED" \
  --data-urlencode "actor=warehouse" \
  "http://orderdesk.internal:8080/orders/status") || exit 2

updated=$(printf '%s' "$response" | jq -r '.updated')
if [ "$updated" -ne "$expected" ]; then
  echo "only $updated of $expected orders were shipped" >&2
  exit 1
fi
echo "$expected orders shipped"
