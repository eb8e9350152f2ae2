#!/usr/bin/env bash
# Several instances on one host without systemd: one for each sector of a detector.
#
#   ./instances.sh start 4      sectors 0 to 3, at UDP ports 9000 to 9003, pages at 8080 to 8083
#   ./instances.sh status
#   ./instances.sh stop         each ends as with Ctrl-C: queues and spools are drained first
#
# Environment: FULLCOUNT (the program), CONFIG (detector.toml beside this script), STATE (logs, spools; ./state),
# FIRST_PORT (9000), FIRST_WEB (8080, or off). Exit codes: 0 done; 1 an instance failed or is not there; 2 wrong use.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fullcount=${FULLCOUNT:-fullcount}
config=${CONFIG:-$here/detector.toml}
state=${STATE:-$PWD/state}
first_port=${FIRST_PORT:-9000}
first_web=${FIRST_WEB:-8080}

usage() {
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

# Process of an instance, if it runs.
running() {
    local pid
    pid=$(cat "$1/pid" 2>/dev/null) && kill -0 "$pid" 2>/dev/null || return 1
    # One that has ended may stay in the table until somebody asks for its exit code.
    ! grep -qs '^State:[[:space:]]*Z' "/proc/$pid/status" && echo "$pid"
}

start() {
    local count=$1 sector
    "$fullcount" run "$config" --print-config >/dev/null
    for ((sector = 0; sector < count; sector++)); do
        local folder=$state/$sector web=off
        mkdir -p "$folder"
        if running "$folder" >/dev/null; then
            echo "sector $sector: runs already, process $(cat "$folder/pid")"
            continue
        fi
        if [[ $first_web != off ]]; then web=127.0.0.1:$((first_web + sector)); fi
        : >"$folder/log"
        nohup "$fullcount" run "$config" --source "udp://0.0.0.0:$((first_port + sector))" --web "$web" \
            --spool "$folder/spool" --set "detector.sectors=$sector" \
            </dev/null >"$folder/out" 2>"$folder/log" &
        echo $! >"$folder/pid"
        # Up when it says where it listens; failed when it has ended before that.
        until grep -q '^listening on ' "$folder/log"; do
            if ! running "$folder" >/dev/null; then
                echo "sector $sector: did not start:" >&2
                cat "$folder/log" >&2
                exit 1
            fi
            sleep 0.1
        done
        echo "sector $sector: process $(cat "$folder/pid"), log $folder/log, ledger at the end in $folder/out"
    done
}

stop() {
    local folder pid failed=0
    for folder in "$state"/*/; do
        if pid=$(running "$folder"); then kill -INT "$pid"; fi
    done
    for folder in "$state"/*/; do
        while pid=$(running "$folder"); do sleep 0.1; done
        if [[ ! -e $folder/pid ]]; then continue; fi
        rm -f "$folder/pid"
        grep -E '^ *(sent|lost|balance|!)' "$folder/out" | sed "s|^|sector $(basename "$folder"): |" || true
        if ! grep -qE '^ *balance +0$' "$folder/out"; then failed=1; fi
    done
    return $failed
}

status() {
    local folder pid down=0
    for folder in "$state"/*/; do
        if pid=$(running "$folder"); then
            echo "sector $(basename "$folder"): process $pid"
        else
            echo "sector $(basename "$folder"): not running"
            down=1
        fi
    done
    return $down
}

shopt -s nullglob
case "${1:-}" in
    start)
        [[ ${2:-} =~ ^[1-9][0-9]?$ ]] || usage
        start "$2"
        ;;
    stop) stop ;;
    status) status ;;
    *) usage ;;
esac
