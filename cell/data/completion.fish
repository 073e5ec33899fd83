# fish completion of cell and hudtui:  source completion.fish
function __cell_ids
    for d in jobs/*/*__???????
        string replace -r '.*__' '' -- $d
    end
end
set -l verbs run plan doctor ls stop ssh attach grade
complete -c cell -f
for pair in 'run:run tasks as cells' 'plan:what would be run' 'doctor:what this machine can do' 'ls:cells and trials' \
        'stop:end a cell' 'ssh:a shell or a command in a cell' 'attach:a terminal of a cell' 'grade:grade a kept cell again'
    set -l part (string split -m 1 : -- $pair)
    complete -c cell -n "not __fish_seen_subcommand_from $verbs" -a $part[1] -d $part[2]
end
complete -c cell -n '__fish_seen_subcommand_from run plan' -F
complete -c cell -n '__fish_seen_subcommand_from run' -s a -l agent -x -a 'oracle nop exec:' -d 'who works'
complete -c cell -n '__fish_seen_subcommand_from run' -s n -x -d 'at a time'
complete -c cell -n '__fish_seen_subcommand_from run' -s k -x -d attempts
complete -c cell -n '__fish_seen_subcommand_from run' -s i -x -d 'only these'
complete -c cell -n '__fish_seen_subcommand_from run' -s x -x -d 'not these'
complete -c cell -n '__fish_seen_subcommand_from run' -l keep -x -a 'never failed always' -d 'leave cells up'
complete -c cell -n '__fish_seen_subcommand_from run' -l on -x -a 'auto local' -d where
complete -c cell -n '__fish_seen_subcommand_from run' -l network -x -a no-network -d 'instead of what is declared'
complete -c cell -n '__fish_seen_subcommand_from stop ssh attach grade' -a '(__cell_ids)'
complete -c cell -n '__fish_seen_subcommand_from attach' -l watch -d 'only look'
complete -c cell -n "__fish_seen_subcommand_from $verbs" -l json -d 'one JSON object a line'
complete -c cell -n "__fish_seen_subcommand_from $verbs" -l jobs-dir -r -a '(__fish_complete_directories)' -d 'where trial folders are'
complete -c hudtui -l read-only -d 'only look'
complete -c hudtui -l filter -x -d 'start with this filter'
complete -c hudtui -l light -d 'the light theme'
