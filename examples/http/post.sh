#!/bin/sh
# Publishes each line of standard input, once: post.sh PREFIX URL...
# With curl alone. The key of a line is PREFIX and its number, so that whoever starts this again on the same file, with the same
# PREFIX, publishes nothing twice. When a node does not answer, or says to come again, the next one is asked, for half an hour
# or RELAY_GIVE_UP_S seconds: members know a key for an hour, and would show again what is posted later.
# RELAY_TOKEN holds the token of nodes that want one.
set -eu
prefix=$1
shift
number=0
while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    ends=$(($(date +%s) + ${RELAY_GIVE_UP_S:-1800}))
    while :; do
        for url in "$@"; do
            status=$(printf %s "$line" | curl --silent --output /dev/null --write-out '%{http_code}' --max-time 20 \
                ${RELAY_TOKEN:+--header "Authorization: Bearer $RELAY_TOKEN"} --header "Idempotency-Key: $prefix-$number" \
                --header 'Content-Type: text/plain' --data-binary @- "$url/messages" || true)
            case $status in
                200) break ;;
                000 | 408 | 429 | 5??) ;; # nobody there, or not now: the next one, with the same key
                *) echo "line $number: refused with $status" >&2 && exit 1 ;;
            esac
        done
        [ "$status" = 200 ] && break
        [ "$(date +%s)" -lt "$ends" ] || { echo "line $number: not taken in time, at last $status" >&2 && exit 1; }
        sleep 0.2
    done
done
