# shellcheck shell=bash
# What a text quotes from a command is what the command prints. A quote is a fenced block with the word output behind its
# first fence; the block before it holds the commands. Only times that are the same on every machine can be quoted in this
# way: those of the modelled clock.

# quotes FILE: writes the commands of each quote to quote.1.command and so on, and its lines to quote.1.output.
quotes() {
    rm -f quote.*
    awk '/^```/ && !inside { inside = 1; quote = $0 == "```output"; block = quote ? block : ""; if (quote) {
                n++; printf "%s", block >("quote." n ".command"); printf "" >("quote." n ".output") } next }
        /^```/ { inside = 0; next }
        inside && quote { print >("quote." n ".output") }
        inside && !quote { block = block $0 "\n" }' "$1"
}

# lacks PRINTED QUOTE: prints the first line of the quote that was not printed, or not in this order. A line of ... stands
# for any lines.
lacks() {
    awk 'NR == FNR { printed[NR] = $0; count = NR; next }
        $0 == "..." { next }
        { do { at++ } while (at <= count && printed[at] != $0)
          if (at > count) { print; exit } }' "$1" "$2"
}

# true_quotes FILE: runs the commands of the quotes of a text, and compares. Their number is in $quotes.
true_quotes() {
    local command line
    quotes=0
    quotes "$1"
    for command in quote.*.command; do
        [ -e "$command" ] || return 0
        quotes=$((quotes + 1))
        timeout "$(patience 60)" bash -e -o pipefail "$command" >quote.printed 2>quote.err </dev/null ||
            { echo "$1:" && cat "$command" quote.printed quote.err && return 1; }
        line=$(lacks quote.printed "${command%.command}.output")
        [ -z "$line" ] || { printf '%s\n' "$1 quotes a line that is not printed:" "$line" 'The command prints:' &&
            cat quote.printed && return 1; }
    done
}
