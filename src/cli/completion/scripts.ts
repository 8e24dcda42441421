/**
 * Contains the completion scripts of bash and zsh: docs/decisions/completion-scripts.md.
 * - They pass the typed words as arguments and evaluate nothing: a key press runs no typed command, and writes no file.
 */

/**
 * Bash splits words at colons and equals signs, and includes redirections. The script joins adjacent words, omits
 * redirections, and inserts only the part of a completion after the last colon.
 */
export const bashScript = (program: string): string => `# bash completion for ${program}

__${program}_complete() {
    local words=() count=0 state='' rest=$COMP_LINE word gap end colons offer i
    local operator='[<>&]*'
    COMPREPLY=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=\${COMP_WORDS[i]}
        gap=' '
        [[ -n $word ]] && gap=\${rest%%"$word"*}
        rest=\${rest#"$gap"}
        rest=\${rest#"$word"}
        end=$((\${#COMP_LINE} - \${#rest}))
        if [[ $i -eq $COMP_CWORD && -n $word && $end -gt $COMP_POINT ]]; then
            word=\${word:0:$((\${#word} > end - COMP_POINT ? \${#word} - end + COMP_POINT : 0))}
        fi
        if [[ $word == $operator ]]; then
            # A file descriptor is part of the redirection, as in 2>.
            [[ -z $gap && $count -gt 1 && \${words[count - 1]} != *[!0-9]* ]] && count=$((count - 1))
            state=operator
        elif [[ $state == operator ]]; then
            state=file
        elif [[ -n $gap || $i -eq 0 ]]; then
            words[count]=$word
            count=$((count + 1))
            state=word
        elif [[ $state == word ]]; then
            words[count - 1]+=$word
        fi
    done
    if [[ $state != word ]]; then
        compopt -o default 2>/dev/null
        return
    fi
    word=\${words[count - 1]}
    colons=''
    [[ $COMP_WORDBREAKS == *:* ]] && colons=\${word%"\${word##*:}"}
    while IFS=$'\\t' read -r offer _; do
        [[ $offer == :* ]] || COMPREPLY+=("\${offer#"$colons"}")
    done < <(${program} complete -- "\${words[@]:1:count-1}" 2>/dev/null)
}

complete -F __${program}_complete ${program}
`

/** Colons in words are escaped: in zsh a colon separates a word from its description. */
export const zshScript = (program: string): string => `#compdef ${program}

_${program}() {
    local line
    local -a offers
    for line in "\${(@f)$(${program} complete -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}"; do
        [[ $line == *$'\\t'* ]] && offers+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    done
    (( \${#offers} )) && _describe ${program} offers
}

# When loaded from fpath, this function runs now; otherwise it is registered.
if [[ \${funcstack[1]} == _${program} ]]; then
    _${program} "$@"
else
    compdef _${program} ${program}
fi
`
