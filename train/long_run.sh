#!/bin/sh
# Train both models on one GPU: long_run.sh MINI_SECONDS NANO_SECONDS [more options for the target's training].
# More options for the draft model's training may be given in NANO_OPTIONS, for both in OPTIONS.
# Shards may still be arriving in work/shards.
# The draft model compiles while the target trains, then waits for the finished target and is distilled from it.
set -u
cd "$(dirname "$0")" || exit 1
mini_seconds=$1
nano_seconds=$2
shift 2
export PYTHONUNBUFFERED=1

attempts() { # run a command again when it fails: training goes on from its last checkpoint
    for _ in 1 2 3; do "$@" && return 0; sleep 1; done
    return 1
}

(
    sleep "${NANO_WAIT:-75}" # leave the first minute to the target
    attempts python3 train.py --config configs/nano.json --out work/nano.pt --seconds "$nano_seconds" --mtp-from 2 \
        --teacher work/mini-final.pt --teacher-config configs/mini.json --warm-steps 50 --decay-share 0.7 ${OPTIONS:-} ${NANO_OPTIONS:-} >work/nano.log 2>&1
    python3 export.py work/nano.pt work/foretoken-nano-q8_0.gguf --kind q8_0 --name foretoken-nano >>work/nano.log 2>&1
    echo finished >>work/nano.log
) &

attempts python3 train.py --config configs/mini.json --out work/mini.pt --seconds "$mini_seconds" ${OPTIONS:-} "$@" >work/mini.log 2>&1
cp work/mini.pt work/mini-copy.pt && mv work/mini-copy.pt work/mini-final.pt
python3 export.py work/mini.pt work/foretoken-mini-q8_0.gguf --kind q8_0 --name foretoken-mini >>work/mini.log 2>&1
echo finished >>work/mini.log
wait
