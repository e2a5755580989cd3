#!/bin/sh
# Prints each message once, as JSON: follow.sh URL...
# With curl alone. When a node ends, the next one is asked for all that it still holds; what was there before is left out, by the
# key of the message where it has one, else by its id. What the next node no longer holds is a gap, which goes to standard error.
# RELAY_TOKEN holds the token of nodes that want one.
set -eu

events() {
    while :; do
        for url in "$@"; do
            curl --silent --no-buffer ${RELAY_TOKEN:+--header "Authorization: Bearer $RELAY_TOKEN"} \
                "$url/events?from=oldest" || true
        done
        sleep 0.2
    done
}

seen=' '
events "$@" | while IFS= read -r line; do
    data=${line#data: }
    case $line in
        'event: '*) kind=${line#event: } ;;
        'id: '*) place=${line#id: } ;;
        'data: '*)
            if [ "$kind" = gap ]; then echo "gap: $data" >&2; fi
            if [ "$kind" != message ]; then continue; fi
            case $data in
                *'"key":"'*) name=${data#*\"key\":\"} && name=${name%%\"*} ;;
                *'"id":['*'"unicast",'* | *'"id":['*'"oob",'*) name=$place ;; # to one member: numbered for each
                *) name=${data#*\"id\":[} && name=${name%%]*} ;;
            esac
            case $seen in *" $name "*) continue ;; esac
            seen="$seen$name "
            if [ ${#seen} -gt 100000 ]; then seen=" ${seen#??????????* }"; fi # the oldest are forgotten, one each time
            printf '%s\n' "$data"
            ;;
    esac
done
