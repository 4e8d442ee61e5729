# shellcheck shell=bash
# Tells the ranks where they meet, as step4.sbatch does.

# Rank 0 runs on the first node. Each job has its own port, below the range that the system assigns by itself.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
