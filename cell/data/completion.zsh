# zsh completion of cell and hudtui:  . completion.zsh  (after compinit)
_cell_ids() { local -a ids; ids=(jobs/*/*__???????(N/)); compadd -- ${ids##*__} }
_cell() {
    local -a verbs=(
        'run:run tasks as cells' 'plan:what would be run' 'doctor:what this machine can do' 'ls:cells and trials'
        'stop:end a cell' 'ssh:a shell or a command in a cell' 'attach:a cell'\''s terminal' 'grade:grade a kept cell again'
    )
    local json='--json[one JSON object a line]' jobs='--jobs-dir[where trial folders are]:folder:_directories'
    if (( CURRENT == 2 )); then _describe command verbs; return; fi
    local verb=$words[2]; shift words; (( CURRENT-- ))
    case $verb in
        run) _arguments '*:tasks:_directories' $json $jobs {-a,--agent}'[who works]:agent:(oracle nop exec:)' \
                '-n[at a time]:number' '-k[attempts]:number' '*-i[only these]:pattern' '*-x[not these]:pattern' \
                '--keep[leave cells up]:when:(never failed always)' '--on[where]:where:(auto local)' \
                '--network[instead of what is declared]:mode:(no-network)' ;;
        plan) _arguments '*:task:_directories' $json ;;
        attach) _arguments '1:cell:_cell_ids' '--watch[only look]' $json $jobs ;;
        stop | ssh | grade) _arguments '1:cell:_cell_ids' $json $jobs ;;
        *) _arguments $json $jobs ;;
    esac
}
_hudtui() {
    _arguments '*:folder:_directories' '--read-only[only look]' '--filter[start with this filter]:filter' \
        '--light[the light theme]' '--version'
}
compdef _cell cell
compdef _hudtui hudtui
