# shellcheck shell=bash
# For tests that ask each step's trainer the same questions. A file loads it after every_step.
more_options=(--lr 0.01)
same_bits="2 3 4"    # with the same number of ranks, they compute the same bits
other_bits="5 7 8 9" # they add in another order
trainers="1 $same_bits $other_bits"
sharded="5 7"

# Step 9 divides matrices by two if it has an even number of ranks, because some widths of the models here are odd.
train() {
    case $1 in
    9) run_step 9 "$2" --tensor $((2 - $2 % 2)) "${@:3}" ;;
    *) run_step "$@" ;;
    esac
}

# One of each optimizer and of each schedule, and random changes that depend on the sample.
settings=("--optimizer adadelta --lr 0.1 --schedule step --gamma 0.5" "--nesterov 1 --schedule cosine --warmup 3 --lr 0.01"
    "--optimizer adamw --beta1 0.8 --beta2 0.9 --epsilon 1e-4 --weight-decay 0.1 --schedule onecycle"
    "--label-smoothing 0.1 --lr 0.02 --warmup 9 --schedule step --step-epochs 2 --gamma 0.1" "--dropout 0.2 --augment flip")
