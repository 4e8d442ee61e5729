load helpers
@test "1.1" { answer 1.1; checked 1.1 0; [ ! -e tests/exercises/right/1.1 ] || try_answers 1.1 right 0; }
@test "1.2" { answer 1.2; checked 1.2 0; [ ! -e tests/exercises/right/1.2 ] || try_answers 1.2 right 0; }
@test "1.4" { answer 1.4; checked 1.4 0; [ ! -e tests/exercises/right/1.4 ] || try_answers 1.4 right 0; }
@test "1.5" { answer 1.5; checked 1.5 0; [ ! -e tests/exercises/right/1.5 ] || try_answers 1.5 right 0; }
@test "2.1" { answer 2.1; checked 2.1 0; [ ! -e tests/exercises/right/2.1 ] || try_answers 2.1 right 0; }
@test "2.2" { answer 2.2; checked 2.2 0; [ ! -e tests/exercises/right/2.2 ] || try_answers 2.2 right 0; }
@test "2.4" { answer 2.4; checked 2.4 0; [ ! -e tests/exercises/right/2.4 ] || try_answers 2.4 right 0; }
@test "3.2" { answer 3.2; checked 3.2 0; [ ! -e tests/exercises/right/3.2 ] || try_answers 3.2 right 0; }
@test "3.3" { answer 3.3; checked 3.3 0; [ ! -e tests/exercises/right/3.3 ] || try_answers 3.3 right 0; }
@test "3.4" { answer 3.4; checked 3.4 0; [ ! -e tests/exercises/right/3.4 ] || try_answers 3.4 right 0; }
@test "5.3" { answer 5.3; checked 5.3 0; [ ! -e tests/exercises/right/5.3 ] || try_answers 5.3 right 0; }
@test "debug.15" { answer debug.15; checked debug.15 0; [ ! -e tests/exercises/right/debug.15 ] || try_answers debug.15 right 0; }
@test "debug.13" { answer debug.13; checked debug.13 0; [ ! -e tests/exercises/right/debug.13 ] || try_answers debug.13 right 0; }
@test "debug.10" { answer debug.10; checked debug.10 0; [ ! -e tests/exercises/right/debug.10 ] || try_answers debug.10 right 0; }
@test "debug.8" { answer debug.8; checked debug.8 0; [ ! -e tests/exercises/right/debug.8 ] || try_answers debug.8 right 0; }
@test "debug.6" { answer debug.6; checked debug.6 0; [ ! -e tests/exercises/right/debug.6 ] || try_answers debug.6 right 0; }
@test "debug.1" { answer debug.1; checked debug.1 0; [ ! -e tests/exercises/right/debug.1 ] || try_answers debug.1 right 0; }
