"""Crontabs: parsing, and conversion of lines to pipelines."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.core.expressions.engine import render
from mainspring.core.schedules.triggers import CronTrigger, next_window
from mainspring.definitions.crontab.command_names import name_of
from mainspring.definitions.crontab.crontab import Entry, Form, read_crontab
from mainspring.definitions.crontab.pipelines import ImportedLine, pipelines_of
from mainspring.definitions.pipeline_file import Pipeline, read_pipeline


def only(text: str) -> Entry:
    """The only command line of a crontab."""
    (entry,) = read_crontab(text).entries
    return entry


def imported(text: str, user: str = "ada") -> list[ImportedLine]:
    """The pipelines of a crontab of user ada."""
    return pipelines_of(read_crontab(text), file="crontab -l", user=user)


def read(line: ImportedLine) -> Pipeline:
    """A pipeline, as parsed from its file."""
    return read_pipeline(line.text, "pipeline.yaml", id=line.name, directory=f"/srv/{line.name}", local_zone="UTC")


def task(line: ImportedLine) -> Any:
    """The one task of a pipeline, in the strict form."""
    (found,) = msgspec.json.decode(read(line).job)["tasks"]
    return found


def printed(line: ImportedLine, home: Path) -> str:
    """The output of a pipeline's command, run as a worker would."""
    shell = task(line)["work"]["shell"]
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["/bin/sh", "-c", shell], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_variables_apply_to_the_lines_below() -> None:
    first, second, third = read_crontab(
        "0 1 * * * one\n"
        "PATH = /usr/local/bin:/bin\n"
        "GREETING=' two  words '\n"
        "0 2 * * * two\n"
        'CRON_TZ="Europe/Paris"\n'
        "GREETING=\n"
        "0 3 * * * three\n"
    ).entries

    assert (first.environment, first.timezone) == ({}, None)
    assert second.environment == {"PATH": "/usr/local/bin:/bin", "GREETING": " two  words "}
    assert third.environment["GREETING"] == ""
    assert third.timezone == "Europe/Paris"


def test_a_variable_before_a_command_is_part_of_the_command() -> None:
    assert only("0 5 * * * A=b c=d cmd").command == "A=b c=d cmd"
    assert only("@daily A=b cmd").command == "A=b cmd"


@pytest.mark.parametrize(
    ("line", "command", "stdin"),
    [
        (r"date +\%H", "date +%H", None),
        ("mail bob%Dear Bob%%bye", "mail bob", "Dear Bob\n\nbye"),
        ("cat%", "cat", ""),
        (r"cat%100\% of it", "cat", "100% of it"),
        (r"printf '\\n' a\b", r"printf '\\n' a\b", None),
    ],
)
def test_an_unescaped_percent_sign_starts_the_input(line: str, command: str, stdin: str | None) -> None:
    entry = only(f"* * * * * {line}")

    assert (entry.command, entry.stdin) == (command, stdin)


def test_comments_right_above_a_line_describe_it() -> None:
    entries = read_crontab(
        "# m h  dom mon dow   command\n"
        "# Copies the orders\n#   every night\n"
        "0 1 * * * copy\n"
        "0 2 * * * undescribed\n"
        "# Of the whole file\n\n"
        "0 3 * * * blank-between\n"
        "# Cleans\n#0 4 * * * old-clean\n"
        "0 4 * * * clean\n"
    ).entries

    assert [entry.description for entry in entries] == ["Copies the orders\nevery night", "", "", "Cleans"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot start", "@reboot"),
        ("61 * * * * x", "61 is not from 0 to 59"),
        ("0 0 30 2 * x", "never matches"),
        ("0~30 * * * * x", "'0~30' is not a value"),
        ("@fortnightly x", "'@fortnightly' is not known"),
        ("* * * * *", "has no command"),
        ("hello world", "neither a variable nor five fields"),
    ],
)
def test_an_invalid_line_is_reported_and_stops_no_other(line: str, why: str) -> None:
    read = read_crontab(f"0 1 * * * before\n{line}\n0 2 * * * after\n")

    assert [entry.command for entry in read.entries] == ["before", "after"]
    (remark,) = read.refused
    assert (remark.line, remark.text) == (2, line)
    assert why in remark.why


def test_mail_is_reported_unless_it_is_disabled() -> None:
    read = read_crontab("MAILTO=''\n0 1 * * * x\nMAILTO=ada@example.org\n0 2 * * * y\n")

    assert [(remark.line, remark.text) for remark in read.ignored] == [(3, "MAILTO=ada@example.org")]
    assert "notify" in read.ignored[0].why
    assert all(entry.environment == {} for entry in read.entries)


SYSTEM = "17 * * * * root cd / && run-parts /etc/cron.hourly\n@daily www-data php clean.php\n"


def test_the_system_form_is_detected_by_users_in_every_line() -> None:
    users = {"root", "www-data"}

    assert read_crontab(SYSTEM, users=users).form is Form.SYSTEM
    assert [entry.user for entry in read_crontab(SYSTEM, users=users).entries] == ["root", "www-data"]
    assert read_crontab(SYSTEM + "0 1 * * * backup /srv\n", users=users).form is Form.USER
    assert read_crontab("0 1 * * * root\n", users=users).form is Form.USER
    assert read_crontab("", users=users).form is Form.USER


def test_an_explicit_form_takes_precedence() -> None:
    assert read_crontab(SYSTEM, form=Form.USER).entries[0].command.startswith("root cd")
    (entry,) = read_crontab("0 1 * * * other run it", form=Form.SYSTEM).entries
    assert (entry.user, entry.command) == ("other", "run it")
    (remark,) = read_crontab("0 1 * * * alone", form=Form.SYSTEM).refused
    assert "no user" in remark.why


def test_either_day_field_is_enough_if_both_are_restricted() -> None:
    """The 13th and every Friday, as in cron."""
    at = datetime(2026, 11, 1, tzinfo=UTC)
    found = []
    while (window := next_window(CronTrigger(cron=only("0 0 13 * 5 x").schedule), at)) and window.month == 11:
        found.append(window.day)
        at = window + timedelta(seconds=1)

    assert found == [6, 13, 20, 27]
    starred = next_window(CronTrigger(cron="0 0 */2 * 5"), datetime(2026, 11, 1, tzinfo=UTC))
    assert starred is not None
    assert starred.day == 13


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh --all", "backup"),
        ("cd /srv/shop && /usr/bin/python3 bin/sync_orders.py --fast >> log 2>&1", "sync-orders"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "cron-daily"),
        ("flock -n /tmp/lock nice -n 10 certbot renew -q", "certbot-renew"),
        ("sudo -u www-data php /var/www/cron.php", "cron"),
        ("/srv/Über_mut.sh", "uber-mut"),
        ("bash -lc 'cd /srv; ./go.sh'", "go"),
        ("LANG=C python -m shop.orders", "shop-orders"),
        ("'it does not end", "line"),
        ("/opt/日本/語", "line"),
    ],
)
def test_a_command_gets_a_recognizable_name(command: str, name: str) -> None:
    assert name_of(command, set()) == name


def test_names_are_unique() -> None:
    taken: set[str] = set()

    assert [name_of("./x.sh", taken) for _ in range(3)] == ["x", "x-2", "x-3"]


def test_a_line_becomes_an_equivalent_pipeline() -> None:
    (line,) = imported("CRON_TZ=Europe/Paris\n# Copies: the orders\n30 5 * * 1-5 /opt/copy --all\n")

    pipeline = read(line)
    job = msgspec.json.decode(pipeline.job)
    (schedule,) = pipeline.schedules
    assert (line.name, line.notes, job["description"]) == ("copy", (), "Copies: the orders")
    assert schedule.trigger == CronTrigger(cron="30 5 * * 1-5", timezone="Europe/Paris")
    assert (schedule.enabled, schedule.missed, schedule.max_consecutive_failures) == (True, "skip", None)
    assert (schedule.overlap, schedule.max_active) == ("skip", 10)
    assert task(line)["max_attempts"] == 1
    assert pipeline.warnings == ()


@pytest.mark.processes
def test_a_command_runs_in_the_home_directory_and_gets_its_input(tmp_path: Path) -> None:
    lines = imported('* * * * * pwd; cat%one%INPUT%two $HOME\n* * * * * echo a; false || echo "it\'s"\n')

    assert printed(lines[0], tmp_path) == f"{tmp_path}\none\nINPUT\ntwo $HOME\n"
    assert printed(lines[1], tmp_path) == "a\nit's\n"


@pytest.mark.processes
def test_another_shell_gets_the_command_unchanged(tmp_path: Path) -> None:
    (line,) = imported('SHELL=/bin/bash\n* * * * * [[ a == a ]] && echo "it\'s $0"; cat%read\n')

    assert printed(line, tmp_path) == "it's /bin/bash\nread\n"
    assert task(line)["work"]["env"]["SHELL"] == "/bin/bash"


def test_a_value_that_looks_like_a_template_is_unchanged() -> None:
    (line,) = imported("FORMAT={{.Names}} {% x %} {# y #}\nODD-NAME=1\nTZ=Asia/Tokyo\n* * * * * docker ps\n")

    environment = task(line)["work"]["env"]
    assert render(environment["FORMAT"], {}) == "{{.Names}} {% x %} {# y #}"
    assert environment["TZ"] == "Asia/Tokyo"
    assert "ODD-NAME" not in environment
    assert [note.partition(" ")[0] for note in line.notes] == ["TZ", "ODD-NAME"]


def test_a_line_for_another_user_is_disabled() -> None:
    text = "0 1 * * * root clean\n0 2 * * * ada mine\n"
    theirs, mine = pipelines_of(read_crontab(text, form=Form.SYSTEM), file="/etc/crontab", user="ada")

    assert (theirs.is_enabled, read(theirs).schedules[0].enabled) == (False, False)
    assert theirs.notes == ("for user root",)
    assert (mine.is_enabled, read(mine).schedules[0].enabled) == (True, True)


@pytest.mark.parametrize(
    "command",
    [
        "echo 'a: b' # c",
        "echo \\\\ \"\\n\" '\\'",
        "echo\t\ttabs",
        "echo \x07\x7f\u2028 ü 😀",
        "  echo   spaced  ",
        "x%  indented%%\ttab% ",
        "echo {{ x }} {% y",
        "echo - | > & ! @ ` %",
    ],
)
def test_any_command_gives_a_readable_file(command: str) -> None:
    (line,) = imported(f"# about: {command}\n* * * * * {command}")

    shell = task(line)["work"]["shell"]
    entry = only(f"* * * * * {command}")
    assert entry.command in shell
    assert (entry.stdin or "") in shell
