// Parts of messages that checks of exercises, tests and texts look for, each with one name. To
// reword a message, change the source that prints it, and its line here. C tests include this file,
// exercises/shared.bash reads it for checks and tests in shell, and make docs reads it for texts.
// So each line is a #define with a text in double quotes.
#pragma once

#define CALLS_DIFFER "the ranks' calls differ"
#define CANNOT_RUN "cannot run"
#define CANNOT_WRITE "cannot write snapshot"
#define FAILED_FIRST "failed first, in attempt"
#define INDIVISIBLE "is not divisible by"
#define NEVER_ARRIVED "never arrived"
#define NOTHING_LEFT "nothing is left to do"
#define NOT_ENDED "a collective has not ended for"
#define NOT_FINITE "the loss is not finite"
#define OTHER_RUN "saves there, too"
#define OUT_OF_MEMORY "out of device memory"
#define REPLICAS_DIFFER "the parameters differ from those of another rank"
#define SECOND_SIGNAL "a second signal ended this run"
#define STOPPED_BY_SIGNAL "told to stop by a signal"
#define TRAINED_WITH "was trained with --seed"
#define TRUNCATED "truncated or corrupt"
#define UNORDERED "nothing orders two operations that use"
#define WRONG_CHECKSUM "wrong checksum"
