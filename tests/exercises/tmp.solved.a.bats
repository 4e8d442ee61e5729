load helpers
@test "9.1" { answer 9.1; checked 9.1 0; [ ! -e tests/exercises/right/9.1 ] || try_answers 9.1 right 0; }
@test "9.2" { answer 9.2; checked 9.2 0; [ ! -e tests/exercises/right/9.2 ] || try_answers 9.2 right 0; }
@test "9.3" { answer 9.3; checked 9.3 0; [ ! -e tests/exercises/right/9.3 ] || try_answers 9.3 right 0; }
@test "8.1" { answer 8.1; checked 8.1 0; [ ! -e tests/exercises/right/8.1 ] || try_answers 8.1 right 0; }
@test "8.2" { answer 8.2; checked 8.2 0; [ ! -e tests/exercises/right/8.2 ] || try_answers 8.2 right 0; }
@test "7.4" { answer 7.4; checked 7.4 0; [ ! -e tests/exercises/right/7.4 ] || try_answers 7.4 right 0; }
@test "7.5" { answer 7.5; checked 7.5 0; [ ! -e tests/exercises/right/7.5 ] || try_answers 7.5 right 0; }
@test "6.1" { answer 6.1; checked 6.1 0; [ ! -e tests/exercises/right/6.1 ] || try_answers 6.1 right 0; }
@test "6.2" { answer 6.2; checked 6.2 0; [ ! -e tests/exercises/right/6.2 ] || try_answers 6.2 right 0; }
@test "6.3" { answer 6.3; checked 6.3 0; [ ! -e tests/exercises/right/6.3 ] || try_answers 6.3 right 0; }
