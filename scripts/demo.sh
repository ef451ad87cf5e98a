#!/usr/bin/env bash
# Installs counteroof into a virtual environment, runs the built-in kernels and names the files it wrote.
# Arguments go to `counteroof run`, for example: scripts/demo.sh --size small
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

make_environment .venv-demo .
say "running the built-in kernels"
exec .venv-demo/bin/counteroof run "$@"
