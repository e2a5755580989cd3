#!/bin/sh
# Prints each message once, as JSON: follow.sh URL...
# With curl alone. When a node ends, or is silent for RELAY_SILENCE_S seconds, the next one is asked for all that it still holds.
# What was there before is left out, by the id, as the numbers of a sender count upwards, and by the key, as two nodes may show
# different copies of a message. What the next node no longer holds is a gap, which goes to standard error.
# RELAY_TOKEN holds the token of nodes that want one.
set -eu

events() {
    while :; do
        for url in "$@"; do
            curl --fail --silent --show-error --no-buffer --connect-timeout 10 --speed-limit 1 --speed-time "${RELAY_SILENCE_S:-30}" \
                ${RELAY_TOKEN:+--header "Authorization: Bearer $RELAY_TOKEN"} "$url/events?from=oldest" || true
            printf '\n: cut\n' # the last line may not be whole
        done
        sleep 0.2
    done
}

seen=' ' kind='' place='' data=''
events "$@" | while IFS= read -r line; do
    case $line in
        'event: '*) kind=${line#event: } ;;
        'id: '*) place=${line#id: } ;;
        'data: '*) data=${line#data: } ;;
        ': cut') data='' ;;
        '')
            message=$data data=''
            if [ "$message" ] && [ "$kind" = gap ]; then echo "gap: $message" >&2; fi
            if [ -z "$message" ] || [ "$kind" != message ]; then continue; fi
            id=${message#*\"id\":[} && id=${id%%]*}
            case $id in
                *'"unicast",'* | *'"oob",'*) sender=${place%-*} number=${place##*-} ;; # to one member: numbered for each
                *) number=${id##*,} && id=${id%\",*} && scope=${id##*\"} && id=${id%\",*} && sender=${id##*\"}_$scope ;;
            esac
            case $sender$number in *[!0-9a-z_]*) echo "no id: $message" >&2 && continue ;; esac
            eval "reached=\${reached_$sender:-0}"
            if [ "$number" -le "$reached" ]; then continue; fi
            eval "reached_$sender=\$number"
            rest=${message#*\"id\":[} && rest=${rest#*]}
            case $rest in
                ',"key":"'*)
                    name=${rest#*:\"} && name=${name%%\",\"*}
                    case $seen in *" $name "*) continue ;; esac
                    seen="$seen$name "
                    if [ ${#seen} -gt 100000 ]; then seen=" ${seen# * }"; fi # the oldest are forgotten, one each time
                    ;;
            esac
            printf '%s\n' "$message"
            ;;
    esac
done
