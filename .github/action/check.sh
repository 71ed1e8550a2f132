#!/usr/bin/env bash
# Runs `dsconfig check` for action.yml. Inputs come as variables, so that no text of a workflow becomes part of a command.
set -uo pipefail

paths=() arguments=()
while IFS= read -r line; do [[ -n "$line" ]] && paths+=("$line"); done <<<"${INPUT_PATHS:-.}"
while IFS= read -r line; do [[ -n "$line" ]] && arguments+=("$line"); done <<<"${INPUT_ARGUMENTS:-}"

check() { dsconfig check "${arguments[@]}" "$@" -- "${paths[@]}"; }

if [[ -n "${INPUT_SARIF:-}" ]]; then
  check --quiet --exit-zero --output-format sarif --output-file "$INPUT_SARIF"
  echo "sarif=$INPUT_SARIF" >>"$GITHUB_OUTPUT"
fi
if [[ "${INPUT_SUMMARY:-true}" == true && -n "${GITHUB_STEP_SUMMARY:-}" ]]; then
  check --quiet --exit-zero --output-format markdown >>"$GITHUB_STEP_SUMMARY"
fi
# The matcher annotates lines from the concise output, which also stays readable in the log.
echo "::add-matcher::$GITHUB_ACTION_PATH/matcher.json"
check --output-format concise --color never
code=$?
echo "::remove-matcher owner=dsconfig::"
exit "$code"
