# bash completion for kgm. Made by tools/generate_manual.py; do not edit.

# Names from kgm's cache, quoted for where they will stand. They are never evaluated.
_kgm_names() {
    local name
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <(command kgm __complete bash "$1" "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    if [[ $1 == *, ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

# Words out of a fixed list.
_kgm_words() {
    local word
    for word in $1; do
        if [[ $word == "$2"* ]]; then
            COMPREPLY+=("$word")
        fi
    done
}

_kgm_value() {
    case $1 in
    file) compopt -o default 2>/dev/null ;;
    folder) compopt -o dirnames 2>/dev/null ;;
    words) _kgm_words "$3" "$2" ;;
    '') ;;
    *) _kgm_names "$1" ;;
    esac
}

# The words up to the cursor as they were typed: bash's own COMP_WORDS are parted at : and = too.
_kgm_split() {
    local line=${COMP_LINE:0:COMP_POINT} char quote='' word='' i
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        if [[ $char == \\ && $quote != "'" ]]; then
            word+=${line:i:2}
            i=$((i + 1))
            continue
        elif [[ -n $quote ]]; then
            if [[ $char == "$quote" ]]; then quote=''; fi
        elif [[ $char == [\'\"] ]]; then
            quote=$char
        elif [[ $char == [[:blank:]] ]]; then
            if [[ -n $word ]]; then words+=("$word"); fi
            word=''
            continue
        fi
        word+=$char
    done
    words+=("$word")
}

_kgm() {
    local cur prev command='' word i words=()
    COMPREPLY=()
    _kgm_split
    cur=${words[${#words[@]} - 1]}
    prev=${words[${#words[@]} - 2]}
    if [[ $cur == --*=* ]]; then
        prev=${cur%%=*}
        cur=${cur#*=}
    fi
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ $word == -* ]]; then
            continue
        fi
        case $command in
        '')
            case $word in list|describe|remove-members|simulate-bounce|watch|wait|doctor|diff|assign|serve|audit|demo|history|config) command+="${command:+ }$word" ;; *) break ;; esac
            ;;
        'history')
            case $word in capture|build|rebalances|explain|timeline|movement|churn|zombies|timeouts|decode|verify|simulate-fleet) command+="${command:+ }$word" ;; *) break ;; esac
            ;;
        'config')
            case $word in view|test) command+="${command:+ }$word" ;; *) break ;; esac
            ;;
        *) break ;;
        esac
    done
    case $command in
    '')
        if [[ $cur == -* ]]; then _kgm_words '--version -h --help' "$cur"; return; fi
        _kgm_words 'list describe remove-members simulate-bounce watch wait doctor diff assign serve audit demo history config' "$cur"
        ;;
    'list')
        case $prev in
        --state) _kgm_value words "$cur" 'stable empty dead preparingrebalance completingrebalance assigning reconciling'; return ;;
        --type) _kgm_value words "$cur" 'classic consumer share streams'; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--state --type --match -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'describe')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --match --all-groups --members --offsets --state --verbose -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'remove-members')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        -i|--instance-ids) _kgm_value 'instance-ids,' "$cur"; return ;;
        -m|--member-ids) _kgm_value 'member-ids,' "$cur"; return ;;
        --from-file) _kgm_value 'file' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        --reason) _kgm_value '' "$cur"; return ;;
        --guard-window) _kgm_value '' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group -i --instance-ids -m --member-ids --from-file --match --reason --dry-run -y --yes --allow-live --ignore-missing --guard-window --no-audit -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'simulate-bounce')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --from-file) _kgm_value 'file' "$cur"; return ;;
        --members) _kgm_value '' "$cur"; return ;;
        --topic) _kgm_value '' "$cur"; return ;;
        -i|--instance-ids) _kgm_value 'instance-ids,' "$cur"; return ;;
        -m|--member-ids) _kgm_value 'member-ids,' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        --max-unavailable) _kgm_value '' "$cur"; return ;;
        --pause) _kgm_value '' "$cur"; return ;;
        --restart-time) _kgm_value '' "$cur"; return ;;
        --stop) _kgm_value words "$cur" 'clean crash'; return ;;
        --retry-every) _kgm_value '' "$cur"; return ;;
        --scale-in) _kgm_value 'identities,' "$cur"; return ;;
        --scale-out) _kgm_value '' "$cur"; return ;;
        --scale-out-every) _kgm_value '' "$cur"; return ;;
        --target-size) _kgm_value '' "$cur"; return ;;
        --pre-registered) _kgm_value 'instance-ids,' "$cur"; return ;;
        --remove) _kgm_value 'identities,' "$cur"; return ;;
        --session-timeout) _kgm_value '' "$cur"; return ;;
        --rebalance-timeout) _kgm_value '' "$cur"; return ;;
        --heartbeat-interval) _kgm_value '' "$cur"; return ;;
        --assignor) _kgm_value words "$cur" 'range roundrobin sticky cooperative-sticky consumer-uniform consumer-range'; return ;;
        --as) _kgm_value '' "$cur"; return ;;
        --protocol) _kgm_value words "$cur" 'classic consumer'; return ;;
        --set) _kgm_value '' "$cur"; return ;;
        --fail-if-moves) _kgm_value '' "$cur"; return ;;
        --fail-if-rebalances) _kgm_value '' "$cur"; return ;;
        --report) _kgm_value 'file' "$cur"; return ;;
        --draws) _kgm_value '' "$cur"; return ;;
        --seed) _kgm_value '' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --from-file --members --topic -i --instance-ids -m --member-ids --match --all --together --rolling --max-unavailable --pause --restart-time --stop --retry-every --migrate --scale-in --scale-out --scale-out-every --target-size --pre-registered --remove --session-timeout --rebalance-timeout --heartbeat-interval --assignor --as --protocol --set --compare --fail-if-moves --fail-if-rebalances --report --draws --seed -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'watch')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --interval) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --settle) _kgm_value '' "$cur"; return ;;
        --baseline) _kgm_value 'file' "$cur"; return ;;
        --max-rebalances) _kgm_value '' "$cur"; return ;;
        --expect-members) _kgm_value '' "$cur"; return ;;
        --count) _kgm_value '' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --interval --until --settle --baseline --expect-no-moves --max-rebalances --expect-members --count -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'wait')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --for) _kgm_value words "$cur" 'stable empty members'; return ;;
        --settle) _kgm_value '' "$cur"; return ;;
        --interval) _kgm_value '' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --for --settle --interval --must-exist -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'doctor')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        --window) _kgm_value '' "$cur"; return ;;
        --history) _kgm_value 'folder' "$cur"; return ;;
        --fail-on) _kgm_value '' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --match --window --history --fail-on -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'diff')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --exit-code -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'file' "$cur"
        ;;
    'assign')
        case $prev in
        --from-file) _kgm_value 'file' "$cur"; return ;;
        --assignor) _kgm_value words "$cur" 'range roundrobin sticky cooperative-sticky consumer-uniform consumer-range'; return ;;
        --library) _kgm_value words "$cur" 'java librdkafka'; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--from-file --assignor --library -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'serve')
        case $prev in
        --listen) _kgm_value '' "$cur"; return ;;
        --topic) _kgm_value '' "$cur"; return ;;
        --brokers) _kgm_value '' "$cur"; return ;;
        --set) _kgm_value '' "$cur"; return ;;
        --data-dir) _kgm_value 'folder' "$cur"; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--listen --topic --brokers --set --data-dir --debug -h --help' "$cur"; return; fi
        ;;
    'audit')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --operator) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --since --operator -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'demo')
        case $prev in
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'history')
        if [[ $cur == -* ]]; then _kgm_words '-h --help' "$cur"; return; fi
        _kgm_words 'capture build rebalances explain timeline movement churn zombies timeouts decode verify simulate-fleet' "$cur"
        ;;
    'history capture')
        case $prev in
        --every) _kgm_value '' "$cur"; return ;;
        --most-records) _kgm_value '' "$cur"; return ;;
        --format) _kgm_value '' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--once --every --most-records --format --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'history build')
        case $prev in
        --format) _kgm_value '' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--from-scratch --format --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'history rebalances')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        --cause) _kgm_value '' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --match --cause --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'history explain')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --generation) _kgm_value '' "$cur"; return ;;
        --report) _kgm_value 'file' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --generation --report --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'history timeline')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'history movement')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'history churn')
        case $prev in
        --match) _kgm_value '' "$cur"; return ;;
        --limit) _kgm_value '' "$cur"; return ;;
        --report) _kgm_value 'file' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--match --limit --report --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'history zombies')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --match --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'history timeouts')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --match --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'history decode')
        case $prev in
        --partition) _kgm_value '' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--all-batches --partition --source --store --out --since --until --broker-log --master --spark-conf --jars -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'history verify')
        case $prev in
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--fail-if-unsound --source --store --out --since --until --broker-log --master --spark-conf --jars -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'history simulate-fleet')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        --match) _kgm_value '' "$cur"; return ;;
        --scenario) _kgm_value words "$cur" 'rolling each scale-in'; return ;;
        --restart-time) _kgm_value '' "$cur"; return ;;
        --draws) _kgm_value '' "$cur"; return ;;
        --seed) _kgm_value '' "$cur"; return ;;
        --set) _kgm_value '' "$cur"; return ;;
        --limit) _kgm_value '' "$cur"; return ;;
        --source) _kgm_value '' "$cur"; return ;;
        --store|--out) _kgm_value 'folder' "$cur"; return ;;
        --since) _kgm_value '' "$cur"; return ;;
        --until) _kgm_value '' "$cur"; return ;;
        --broker-log) _kgm_value 'file' "$cur"; return ;;
        --master) _kgm_value '' "$cur"; return ;;
        --spark-conf) _kgm_value '' "$cur"; return ;;
        --jars) _kgm_value 'folder' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group --match --scenario --restart-time --draws --seed --set --limit --source --store --out --since --until --broker-log --master --spark-conf --jars -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        _kgm_value 'groups' "$cur"
        ;;
    'config')
        if [[ $cur == -* ]]; then _kgm_words '-h --help' "$cur"; return; fi
        _kgm_words 'view test' "$cur"
        ;;
    'config view')
        case $prev in
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '--show-origin -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    'config test')
        case $prev in
        -g|--group) _kgm_value 'groups' "$cur"; return ;;
        -b|--bootstrap-server|--bootstrap-servers) _kgm_value '' "$cur"; return ;;
        --command-config) _kgm_value 'file' "$cur"; return ;;
        -X) _kgm_value '' "$cur"; return ;;
        --profile) _kgm_value 'profiles' "$cur"; return ;;
        --timeout) _kgm_value '' "$cur"; return ;;
        -o|--output) _kgm_value words "$cur" 'table wide json yaml csv tsv name ndjson markdown schema'; return ;;
        --color) _kgm_value words "$cur" 'auto always never'; return ;;
        esac
        if [[ $cur == -* ]]; then _kgm_words '-g --group -b --bootstrap-server --bootstrap-servers --command-config -X --profile --timeout -o --output --no-headers --color --debug -h --help' "$cur"; return; fi
        ;;
    esac
}

complete -F _kgm kgm
