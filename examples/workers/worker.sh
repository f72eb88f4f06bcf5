#!/bin/sh
# A worker in POSIX shell, with curl and jq. Each program in a directory is a handler; one runs at a time.
#
#     MAINSPRING_API_KEY=msp_.. ./worker.sh handlers
#
#     {"name": "words", "tasks": [{"name": "count", "work": {"handler": "words", "args": {"text": "to be or not"}}}]}
#
# A program reads the claimed run as JSON from stdin, and prints the task's output as JSON. Its stderr is the log. A
# non-zero exit code is a failure; 64 is a permanent failure.
# docs/guides/worker-in-any-language.md explains every call.

set -u
programs=${1:?usage: worker.sh DIRECTORY}
server=${MAINSPRING_SERVER_URL:-http://127.0.0.1:8484}/api/v1
worker=${WORKER_ID:-$(uname -n)-$$}
claim_seconds=${WORKER_CLAIM_SECONDS:-60}
beat_seconds=${WORKER_BEAT_SECONDS:-10}
leaving=

umask 077
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'leaving=1' TERM INT # the running task is finished first
printf 'Content-Type: application/json\n' > "$scratch/headers"
if [ -n "${MAINSPRING_API_KEY:-}" ]; then # in a file: command lines are visible to all users
    printf 'Authorization: Bearer %s\n' "$MAINSPRING_API_KEY" >> "$scratch/headers"
fi

# post PATH BODY ANSWER: send a file, with retries: every call is idempotent.
# Returns 0: success, the response is in ANSWER; 9: the claim was lost; 1: invalid request (not retryable).
post() {
    delay=1
    while :; do
        status=$(curl -s -m 60 -o "$3" -w '%{http_code}' -H "@$scratch/headers" --data-binary "@$2" "$server$1")
        case $status in
            2??) return 0 ;;
            409) return 9 ;;
            000 | 429 | 5??) ;;
            *) echo "$1: $status $(cat "$3")" >&2 && return 1 ;;
        esac
        [ -n "$leaving" ] && [ "$1" = /scheduler/claim-runs ] && return 1
        jitter=$(od -An -N2 -tu2 /dev/urandom)
        sleep $((delay + jitter % (delay + 1)))
        delay=$((delay < 8 ? delay * 2 : 15))
    done
}

# heartbeat PATH: send a heartbeat, with the new log output.
heartbeat() {
    tail -c +$(($(cat "$scratch/sent") + 1)) "$scratch/log" | head -c 100000 > "$scratch/chunk"
    jq -Rs --arg worker "$worker" '{worker_id: $worker, log: .}' "$scratch/chunk" > "$scratch/beat"
    post "$1/heartbeat" "$scratch/beat" "$scratch/beaten" || return
    echo $(($(cat "$scratch/sent") + $(wc -c < "$scratch/chunk"))) > "$scratch/sent"
}

# beat PATH CHILD: send heartbeats; stop the program if the response requests it, or if the claim was lost.
beat() {
    while sleep "$beat_seconds"; do
        heartbeat "$1" || { touch "$scratch/dropped"; kill "$2"; return; }
        if [ "$(jq -r .stop "$scratch/beaten")" = true ]; then
            kill "$2"
            sleep "$(jq -r '.grace_seconds | floor' "$scratch/beaten")"
            kill -9 "$2"
        fi
    done
}

# execute: start the claimed run, run its program, and report the result.
execute() {
    id=$(jq -r .run_id "$scratch/run")
    program=$programs/$(jq -r '.work.handler // "none" | gsub("/"; "_")' "$scratch/run")
    at=/pipeline-runs/$id
    rm -f "$scratch/dropped"
    echo 0 > "$scratch/sent"
    jq -n --arg worker "$worker" '{worker_id: $worker}' > "$scratch/start"
    post "$at/start" "$scratch/start" "$scratch/answer" || return
    "$program" < "$scratch/run" > "$scratch/output" 2> "$scratch/log" &
    child=$!
    beat "$at" "$child" > /dev/null 2>&1 &
    beating=$!
    while wait "$child"; code=$?; kill -0 "$child" 2> /dev/null; do :; done # a signal ends `wait`, not the program
    kill "$beating" 2> /dev/null
    wait "$beating" 2> /dev/null
    if [ -e "$scratch/dropped" ]; then return 9; fi
    if [ -s "$scratch/log" ]; then heartbeat "$at" || return; fi
    if [ "$code" -eq 0 ] && jq -e '[., true][1]' "$scratch/output" > /dev/null 2>&1; then
        end=complete
        jq --arg worker "$worker" '{worker_id: $worker, status: "SUCCESS", result_summary: .}' "$scratch/output"
    else
        end=fail
        tail -c 2000 "$scratch/log" | jq -Rs --arg worker "$worker" --argjson code "$code" \
            '{worker_id: $worker, error_type: "Exit", should_retry: ($code != 64),
              error_details: {message: "exited with \($code)", last_lines: .}}'
    fi > "$scratch/end"
    post "$at/$end" "$scratch/end" "$scratch/answer" && echo "$id: $end"
}

served=$(for program in "$programs"/*; do [ -x "$program" ] && basename "$program"; done | jq -Rn '[inputs]')
jq -n --arg worker "$worker" --argjson seconds "$claim_seconds" --argjson served "$served" \
    --arg pool "${MAINSPRING_POOL:-}" \
    '{worker_id: $worker, max_claims: 1, claim_duration_seconds: $seconds, wait_seconds: 5, handlers: $served}
     + if $pool == "" then {} else {pool: $pool} end' > "$scratch/claim"
echo "$worker serves $(echo "$served" | jq -r 'join(", ")') at $server"
while [ -z "$leaving" ]; do
    if ! post /scheduler/claim-runs "$scratch/claim" "$scratch/claimed"; then
        [ -n "$leaving" ] && break
        exit 1
    fi
    jq -e '.claimed_runs[0] // empty' "$scratch/claimed" > "$scratch/run" || continue
    execute || echo "$(jq -r .run_id "$scratch/run"): dropped" >&2
done
