# shellcheck shell=bash
# Session 4 trains a model of 7 billion parameters on modelled H100 GPUs. Type in bash: . docs/slides/large.sh
model=(--data blank:60000 --hidden "$(printf '21600,%.0s' {1..15})21600" --optimizer adam
    --batch 16384 --max-steps 3 --tf32 1)

modelled() { # RANKS PROGRAM OPTION...: without arithmetic
    CPU_DEVICES=$1 CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 \
        03_multigpu_launcher/launch --nproc-per-node "$1" "${@:2}" "${model[@]}" 2>&1 |
        grep -v "^launch:"
}

phases() { # prints some columns of --profile
    grep -A 1 ^profile | cut -c 1-25,35-43,53-61,71-79,98-115
}
