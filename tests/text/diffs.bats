#!/usr/bin/env bats
# Tests of tools/diff_steps.sh, which shows the changes from step to step, and tools/author/diffstat.sh, which measures them.
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    run ! git rev-parse # a downloaded tarball is no checkout
    unset DEVICE
    diffstat=$root/tools/author/diffstat.sh diff_steps=$root/tools/diff_steps.sh
    mkdir 01_one 02_two
    cat >01_one/train.c <<'END'
// Step 1: one counter
// that adds up.
#include <stdio.h>

struct counter {
    int first;  // where it starts
    long total; // of all numbers so far
};

// Adds all numbers up to the last one.
static void add_up(struct counter *c, int last) {
    for (int i = c->first; i <= last; i++)
        c->total += i;
}

static void show(const struct counter *c) {
    printf("see https://example.org: total %ld\n", c->total);
    fflush(stdout);
}

/* The main program
   does it all. */
int main(void) {
    struct counter c = {1, 0};
    add_up(&c, 100);
    show(&c);
    return 0;
}
END
}

# change SED...: makes step 2 from step 1 with this change. The change must find its text.
change() {
    sed -E "$@" 01_one/train.c >02_two/train.c
    run ! cmp -s 01_one/train.c 02_two/train.c
}

@test "one line more than its budget makes a pair fail, and so does a pair without a budget" {
    change -e 's/100/200/' -e 's/c->total \+= i/& * i/'
    "$diffstat" | tr -s ' ' | grep -x ' *1-2 2 2 2 133/24'
    seq -f 'f(%g);' 25 >01_one/train.c
    seq -f 'g(%g);' 134 >02_two/train.c
    fails 1 "02_two/train.c: 134 lines added and 25 removed, beyond the budget of 133 and 24" "$diffstat"
    mv 01_one 07_seven
    mv 02_two 08_eight
    fails 1 "08_eight/train.c: 134 lines added and 25 removed, beyond the budget of none and none" "$diffstat"
}

@test "the user's git settings change nothing" {
    change -e 's/100/200/' -e 's/c->total \+= i/& * i/'
    plain=$("$diff_steps" 1 2)
    export HOME=$PWD/home
    mkdir home
    git config --global color.ui always
    git config --global diff.interHunkContext 50
    git config --global diff.mnemonicPrefix true
    git config --global diff.algorithm patience
    [ "$("$diff_steps" 1 2)" = "$plain" ]
}

# with_tables: both steps get includes that differ, and a table of options that does.
with_tables() {
    for n in 1 2; do
        sed -i "s/^#include.*/&\n#include <of_step_$n.h>/
            /^struct counter/i static const struct option_spec options[] = {\n    {\"of-step-$n\", \"help\"},\n};\n" \
            0$n*/train.c
    done
    sed -i 's/^#include <of_step_2.h>/&\n#include <more.h>/; s/{"of-step-2".*/&\n    {"more", "help"},/' 02_two/train.c
}

@test "diff_steps.sh shows a line before and after each change and the place, and leaves out includes" {
    change -e 's/c->total \+= i/& * i/' -e 's/100/200/'
    with_tables
    "$diff_steps" 1 2 >shown
    run ! grep -qE '^[-+]#include' shown
    [ "$(grep -c '^-' shown) $(grep -c '^+' shown) $(grep -c '^ ' shown)" = "3 4 6" ]
    grep -qF "@@ 02_two/train.c:$(($(grep -n 'c->total +=' 02_two/train.c | cut -d: -f1) - 1)) @@ " shown
    tail -n 1 shown | grep -q '^ALL=1 shows'
}

@test "ALL=1 shows the whole changed functions, structs and tables and their places, and the includes" {
    change -e 's/c->total \+= i/& * i/' -e 's/one counter/a counter/'
    with_tables
    ALL=1 "$diff_steps" 1 2 >shown
    sed -n '/^.. Adds/,/^}/p' 01_one/train.c | sed 's/^/ /; /+=/c-        c->total += i;\n+        c->total += i * i;' >wanted
    diff <(grep -A 5 '^ // Adds' shown) wanted
    grep -qxF "@@ 02_two/train.c:$(grep -n '^// Adds' 02_two/train.c | cut -d: -f1) @@" shown
    grep -qx '+    {"more", "help"},' shown
    grep -qx ' static const struct option_spec options\[\] = {' shown
    grep -qx '+#include <more.h>' shown
    run ! grep -qE '^[- +].*(fflush|show|int first|return 0)' shown
}

@test "F=name shows a whole function, a struct or the table of options" {
    change -e 's/c->total \+= i/& * i/' -e 's/100/200/' -e '/^static void show/i static int news(void) {\n    return 1;\n}\n'
    with_tables
    line=$(grep -n '^// Adds all' 02_two/train.c | cut -d: -f1)
    diff <(F=add_up "$diff_steps" 1 2) - <<END
@@ 02_two/train.c:$line @@
 // Adds all numbers up to the last one.
 static void add_up(struct counter *c, int last) {
     for (int i = c->first; i <= last; i++)
-        c->total += i;
+        c->total += i * i;
 }
END
    [ "$(F=news "$diff_steps" 1 2 | tail -n +2)" = $'+static int news(void) {\n+    return 1;\n+}' ]
    [ "$(F=options "$diff_steps" 1 2 | grep -c '^[-+]')" = 3 ]
    [ -z "$(F=counter "$diff_steps" 1 2)" ]
    F=nowhere fails 2 "neither 01_one/train.c nor 02_two/train.c has a function, struct or table called nowhere" \
        "$diff_steps" 1 2
}

@test "one line reports a missing step or a missing argument" {
    fails 2 "step 2 has no train.c here (looked for 02_*/train.c)" "$diff_steps" 1 2
    fails 2 "step 3 has no train.c" "$diff_steps" 3 1
    fails 2 "usage: " "$diff_steps" 1
    cp 01_one/train.c 02_two
    run --separate-stderr "$diff_steps" 1 2
    [ "$status" = 0 ]
    [ -z "$output$stderr" ]
    fails 1 "git is not installed" env PATH=/nowhere "$diff_steps" 1 2
    fails 1 "git is not installed" env PATH=/nowhere "$diffstat"
}

@test "make has a diff target for each pair of steps, and builds nothing for it" {
    cp "$root/Makefile" .
    ln -s "$root"/{tools,tests,exercises,bench} .
    change 's/100/200/'
    run --separate-stderr make diff12
    [ "$status" = 0 ]
    [[ $output && $output == "$("$diff_steps" 1 2)" ]]
    for pair in 35 56 13 1; do
        fails 2 "There is no diff$pair: the steps are step1 step2 " make diff$pair
    done
    fails 2 ", and the differences are diff12 diff23 " make run-step10
    change 's/Adds all/Adds the/'
    run make diffstat
    [ "$status" = 2 ]
    [ ! -e build ]
}
