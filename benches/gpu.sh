#!/bin/sh
# Measures the kernels and the encoder on a GPU, also on a machine that cannot build.
#
#   benches/gpu.sh build           builds, and puts what a run needs into target/gpu-bench
#   benches/gpu.sh run [ADAPTER [MIB [TENSOR_MIB]]]   runs it from there; under six minutes
set -eu
cd "$(dirname "$0")/.."
kit=target/gpu-bench
case "${1:-}" in
build)
    mkdir -p "$kit"
    cargo bench --bench gpu --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\/gpu-[^"]*\)".*/\1/p' | tail -n 1 |
        while read -r binary; do strip -o "$kit/gpu" "$binary"; done
    # The loader of Vulkan; the driver belongs to the machine.
    loader=$(ldconfig -p | sed -n 's/.*libvulkan\.so\.1 .* => //p' | head -n 1)
    if [ -n "$loader" ]; then cp -L "$loader" "$kit/libvulkan.so.1"; fi
    ls -l "$kit"
    ;;
run)
    shift
    LD_LIBRARY_PATH="$PWD/$kit${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        exec timeout 360 "$kit/gpu" "${@:-auto}"
    ;;
*)
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
