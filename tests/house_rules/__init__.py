"""The house rules: functions that take source code and return complaints. `tests/test_tidy.py` runs them.

A rule takes one `Source` and yields a `Complaint` for each place that breaks it; it reads nothing from the disk. Rules
about several files at once take all that they compare.

To add a rule: write it in the file of its topic, add it to `RULES`, and give it a bad and a good example in
`test_tidy.py`.

Three rules can be waived by a comment that states the reason:

    tidy: long because ..           above or inside a function of more than 70 lines
    tidy: one concept because ..    anywhere in a file of more than 600 lines
    tidy: sleeps because ..         on the line of a test that has no event to wait for
"""

from __future__ import annotations

from tests.house_rules.direction import imports_go_one_way
from tests.house_rules.form import (
    core_has_no_any,
    file_names_are_concepts,
    files_are_one_concept,
    functions_are_short,
    public_names_have_docstrings,
)
from tests.house_rules.language import words_of_the_field
from tests.house_rules.never import (
    errors_are_not_swallowed,
    no_input_is_executed,
    no_todo_comments,
    only_commands_print,
)
from tests.house_rules.purity import (
    core_and_shard_are_pure,
    no_test_sleeps,
    only_ids_draw_randomness,
    only_the_clock_reads_time,
)
from tests.house_rules.records import errors_have_codes, migrations_state_their_cost, wire_names_are_explicit
from tests.house_rules.source import Rule
from tests.house_rules.states import only_the_table_assigns_states

RULES: tuple[Rule, ...] = (
    imports_go_one_way,
    only_the_clock_reads_time,
    only_ids_draw_randomness,
    no_test_sleeps,
    core_and_shard_are_pure,
    only_the_table_assigns_states,
    functions_are_short,
    files_are_one_concept,
    file_names_are_concepts,
    public_names_have_docstrings,
    core_has_no_any,
    errors_have_codes,
    wire_names_are_explicit,
    migrations_state_their_cost,
    no_todo_comments,
    only_commands_print,
    errors_are_not_swallowed,
    no_input_is_executed,
    words_of_the_field,
)

RULES_FOR_ANY_TEXT: frozenset[Rule] = frozenset(
    {files_are_one_concept, file_names_are_concepts, migrations_state_their_cost, no_todo_comments, words_of_the_field}
)
"""Rules that read the text of a file, not its syntax: they apply to SQL too."""
