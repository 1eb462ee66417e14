#!/usr/bin/env bash
set -euo pipefail

npm ci
npm run typecheck
npm test -- --reporter=dot
