#!/usr/bin/env bash
# Trains with burn on wgpu, saves from device memory, kills a run and resumes it, and compares the
# result with a run that was never killed. The first build takes minutes; a software adapter does.
#
#   examples/burn/run.sh [STEPS [EVERY]]
set -euo pipefail
cd "$(dirname "$0")"
steps=${1:-30} every=${2:-5}
cargo build --release
train=${CARGO_TARGET_DIR:-target}/release/lmc-gpu-burn
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo "== without saving"
"$train" "$dir/none" --steps "$steps" --every 0 | tail -n 4
echo "== saving every $every steps"
"$train" "$dir/whole" --steps "$steps" --every "$every" | tee "$dir/whole.log"
echo "== killed on the way, then resumed"
"$train" "$dir/killed" --steps "$steps" --every "$every" --kill-at $((steps / 2 + every / 2)) | tail -n 1 || true
"$train" "$dir/killed" --steps "$steps" --every "$every" | tee "$dir/killed.log" | grep -E 'resumed|checksum'
if [ "$(grep checksum "$dir/whole.log")" = "$(grep checksum "$dir/killed.log")" ]; then
  echo "the resumed run ends with the same bits"
else
  echo "the resumed run ends with other bits" >&2
  exit 1
fi
