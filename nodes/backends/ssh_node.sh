# What an SSH node needs on its host, sent along with every command: a POSIX shell, GNU grep, find, coreutils, setsid.
# $home: the node's home. What belongs to the main process is who has $mark in its environment, wherever it went.

inside() { # path: where it really is; it must not leave the home
    real=$(realpath -m -- "$home/$1") && case $real in "$home" | "$home"/*) echo "$real" ;; *) exit 95 ;; esac
}
marked() { # pids that carry the mark $1
    grep -lzx -- "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
}
states() { # of all threads of all marked processes
    for pid in $(marked "$1"); do cat "/proc/$pid"/task/*/stat 2>/dev/null; done | sed 's/.*) \(.\).*/\1/' | sort -u | tr -d '\n'
}
stopped() { case $1 in T | t | Tt | tT) ;; *) return 1 ;; esac; }
repeat() { # look whether it is so (400 times at most), do something about it
    tries=0
    until "$1"; do
        "$2" && tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "no effect after $tries signals: $(marked "$mark" | xargs ps -o pid,stat,comm -p)" >&2; exit 98; }
        sleep 0.02
    done
}
none() { [ -z "$(marked "$mark")" ]; }
kill_all() { kill -KILL $(marked "$mark") 2>/dev/null || :; }
all_stopped() { now=$(states "$mark"); [ -z "$now" ] || stopped "$now"; }
# A process in vfork can stop only after its child went on; so everything runs again before the next attempt.
stop_all() {
    kill -CONT $(marked "$mark") 2>/dev/null
    kill -STOP $(marked "$mark") 2>/dev/null || :
}
none_stopped() { case $(states "$mark") in *[Tt]*) return 1 ;; esac; }
continue_all() { kill -CONT $(marked "$mark") 2>/dev/null || :; }

verb_start() { # log, then the command; env -i keeps the environment small
    log=$(inside "$1") || exit
    shift
    cd "$home" && mkdir -p "$(dirname "$log")" || exit
    command -v "$program" >/dev/null || { echo "$program: not found" >&2; exit 97; }
    rm -f ../pid ../exit
    setsid sh -c 'log=$1; shift; sh -c "echo \$\$ > ../pid.new; mv ../pid.new ../pid; exec \"\$@\"" sh "$@" >> "$log" 2>&1
        echo $? > ../exit.new; mv ../exit.new ../exit' sh "$log" "$@" </dev/null >/dev/null 2>&1 &
    until [ -e ../pid ] || [ -e ../exit ]; do sleep 0.01; done
}
verb_kill() {
    repeat none kill_all
    [ ! -e "$home/../pid" ] || until [ -e "$home/../exit" ]; do sleep 0.01; done
}
verb_term() { kill -TERM "$(cat "$home/../pid")" 2>/dev/null || :; }
verb_pause() {
    ! none || { echo 'nothing runs that could be paused' >&2; exit 97; }
    repeat all_stopped stop_all
}
verb_resume() { repeat none_stopped continue_all; }
verb_state() { # "gone CODE", "paused", "running" or "never"; main is the process, not its children
    [ -e "$home/../pid" ] || { echo never; return; }
    [ ! -e "$home/../exit" ] || { echo "gone $(cat "$home/../exit")"; return; }
    now=$(cat "/proc/$(cat "$home/../pid")"/task/*/stat 2>/dev/null | sed 's/.*) \(.\).*/\1/' | sort -u | tr -d '\n')
    if stopped "$now"; then echo paused; else echo running; fi
}
verb_busy() { marked "$mark" | tr '\n' ' '; }
verb_resident() {
    for pid in $(marked "$mark"); do cat "/proc/$pid/statm" 2>/dev/null; done |
        awk -v page="$(getconf PAGESIZE)" '{ sum += $2 * page } END { printf "%d\n", sum }'
}
verb_run() { cd "$home" && { command -v "$program" >/dev/null || { echo "$program: not found" >&2; exit 97; }; } && exec "$@"; }
verb_write() { path=$(inside "$1") && mkdir -p "$(dirname "$path")" && cat > "$path"; }
verb_read() { path=$(inside "$1") && cat -- "$path"; }
verb_exists() { path=$(inside "$1") && if [ -e "$path" ]; then echo yes; fi; }
verb_list() { path=$(inside "$1") && [ ! -d "$path" ] || find "$path" ! -type d -printf '%P\0'; }
verb_wipe() { # path, then find's words for what to keep
    path=$(inside "$1") || exit
    shift
    [ ! -e "$path" ] || find "$path" -mindepth 1 -maxdepth 1 "$@" -exec rm -rf -- {} +
}
verb_copy() {
    from=$(inside "$1") && to=$(inside "$2") && ls -d -- "$from" >/dev/null && rm -rf -- "$to" &&
        mkdir -p "$(dirname "$to")" && cp -a -- "$from" "$to"
}
verb_truncate() { path=$(inside "$1") && ls -d -- "$path" >/dev/null && truncate -s "$2" -- "$path"; }
verb_fetch() { # a tar of the path, its top named "it"; nothing when it is missing
    path=$(inside "$1") && [ ! -e "$path" ] || tar -C "$(dirname "$path")" --transform "s|^$(basename "$path")|it|" -cf - "$(basename "$path")"
}
verb_tail() { # path, inode, bytes read so far, most bytes to read: "INODE FROM", then what is new
    path=$(inside "$1") || exit
    found=$(stat -c '%i %s' "$path" 2>/dev/null) || { echo "0 0"; return; } # not there yet, or just being rotated
    now=${found% *} size=${found#* }
    from=$3
    { [ "$now" = "$2" ] && [ "$size" -ge "$from" ]; } || from=0
    echo "$now $from"
    tail -c "+$((from + 1))" "$path" | head -c "$4"
}
