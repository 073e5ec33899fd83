# bash completion of cell and hudtui:  . completion.bash
_cell_ids() { local d; for d in "${1:-jobs}"/*/*__???????/; do [ -d "$d" ] && d=${d%/} && echo "${d##*__}"; done; }
_cell() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "run plan doctor ls stop ssh attach grade --help --version" -- "$word")
        return
    fi
    case $before in
        -a | --agent) words="oracle nop exec:" ;;
        --keep) words="never failed always" ;;
        --on) words="auto local" ;;
        --network) words="no-network" ;;
        --jobs-dir) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    esac
    if [ -z "$words" ]; then
        case $verb in
            run) words="-a --agent -n -k -i -x --jobs-dir --keep --network --on --json --help" ;;
            attach) words="--watch --json --help $(_cell_ids)" ;;
            ssh | stop | grade) words="--json --help $(_cell_ids)" ;;
            *) words="--jobs-dir --json --help" ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    [[ $verb == run || $verb == plan ]] && [[ $word != -* ]] && mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$word")
}
_hudtui() {
    local word=${COMP_WORDS[COMP_CWORD]}
    case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "--read-only --filter --light --version --help" -- "$word") ;;
        *) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    esac
}
complete -o filenames -F _cell cell
complete -o filenames -F _hudtui hudtui
