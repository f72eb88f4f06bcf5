"""The house rules, as functions that read source and return complaints. `tests/test_tidy.py` runs them on the project.

A rule takes one `Source` and yields a `Complaint` for each place that breaks it; it reads nothing from the disk. Rules
about several files at once take all that they compare.

When you add a rule: write it in the file where one would look for it, name it in `RULES`, and give it a bad and a good
example in `test_tidy.py`.

Three rules can be answered where they are broken, by a comment with a reason that a reader can judge:

    tidy: long because ..           above or inside a function that stays over 70 lines
    tidy: one concept because ..    anywhere in a file that stays over 600 lines
    tidy: sleeps because ..         on the line in a test where there is nothing to wait on
"""

from __future__ import annotations

from tests.house_rules.direction import imports_go_one_way
from tests.house_rules.form import (
    everything_public_is_explained,
    files_are_one_concept,
    functions_are_short,
    names_say_something,
    types_are_said,
)
from tests.house_rules.never import (
    errors_are_not_swallowed,
    nothing_is_left_for_later,
    nothing_runs_foreign_text,
    only_the_edge_prints,
)
from tests.house_rules.purity import chance_has_one_home, deciders_only_decide, no_test_sleeps, time_has_one_home
from tests.house_rules.records import errors_have_codes, migrations_say_what_they_cost, names_outside_are_written_down
from tests.house_rules.source import Rule
from tests.house_rules.states import only_the_table_assigns_states

RULES: tuple[Rule, ...] = (
    imports_go_one_way,
    time_has_one_home,
    chance_has_one_home,
    no_test_sleeps,
    deciders_only_decide,
    only_the_table_assigns_states,
    functions_are_short,
    files_are_one_concept,
    names_say_something,
    everything_public_is_explained,
    types_are_said,
    errors_have_codes,
    names_outside_are_written_down,
    migrations_say_what_they_cost,
    nothing_is_left_for_later,
    only_the_edge_prints,
    errors_are_not_swallowed,
    nothing_runs_foreign_text,
)

RULES_FOR_ANY_TEXT: frozenset[Rule] = frozenset(
    {files_are_one_concept, names_say_something, migrations_say_what_they_cost, nothing_is_left_for_later}
)
"""Those that read a file's words and not its syntax, so that they can also read SQL."""
