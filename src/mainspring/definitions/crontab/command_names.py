"""Derive names from the commands of a crontab.

cd /srv/shop && /usr/bin/python3 bin/sync_orders.py --fast    sync-orders
[ -x /usr/sbin/anacron ] || run-parts /etc/cron.daily         cron-daily
flock -n /tmp/lock nice certbot renew -q                      certbot-renew
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from mainspring.dsl.names import job_name

_MAX_NAME_LENGTH = 60
_FALLBACK = "line"
_ENDS = frozenset({"&&", "||", ";", "|", "&", "(", ")"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PLAIN_WORD = re.compile(r"[a-z][a-z-]{1,20}")
_GUARDS = frozenset({"cd", "test", "[", "[[", ".", "source", "export", "set", "umask", "sleep", "command", "{", "true"})
"""Commands in front of the relevant one."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_INTERPRETERS = re.compile(r"(python|php|perl|ruby|node|java|run-parts|sh|bash|dash|zsh|ksh)[0-9.]*")
_SUFFIX = re.compile(r"\.(py|sh|bash|php|pl|rb|js|jar|bin)$")
_WRAPPERS = {"sudo": 0, "nice": 0, "ionice": 0, "nohup": 0, "env": 0, "exec": 0, "time": 0, "chronic": 0, "setsid": 0}
_WRAPPERS |= {"timeout": 1, "flock": 1}
"""Commands that run another one, and the number of their own arguments before it."""


def name_of(command: str, taken: set[str]) -> str:
    """Return a unique name for a directory and a job, and add it to `taken`."""
    wanted = _slug("-".join(_significant_words(command))) or _FALLBACK
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name)
    return name


def _significant_words(command: str) -> list[str]:
    """Return the relevant program, and its subcommand."""
    for words in map(_unwrapped, _commands(command)):
        if not words or words[0] in _GUARDS:
            continue
        program, rest = PurePosixPath(words[0]).name, words[1:]
        if _INTERPRETERS.fullmatch(program) and rest:
            if program in _SHELLS and rest[0].startswith("-") and rest[0].endswith("c") and len(rest) > 1:
                return _significant_words(rest[1])
            script = next((word for word in rest if not word.startswith("-")), program)
            return [_bare(script)]
        verb = rest[0] if rest and _PLAIN_WORD.fullmatch(rest[0]) else ""
        return [_bare(program), verb]
    return []


def _commands(text: str) -> Iterator[Sequence[str]]:
    """Yield the simple commands of a shell script, as arguments, by a rough parse."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();|&<>")
    lexer.whitespace_split = True
    words: list[str] = []
    is_over = False
    try:
        for word in lexer:
            if word in _ENDS:
                yield words
                words, is_over = [], False
            elif word[:1] in {"<", ">"}:
                is_over = True
            elif not is_over:
                words.append(word)
    except ValueError:
        # An unterminated quote: the part before it is enough for a name.
        pass
    yield words


def _unwrapped(words: Sequence[str]) -> Sequence[str]:
    """Return the command without variables and wrappers."""
    while words:
        program = PurePosixPath(words[0]).name
        if _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        elif program in _WRAPPERS:
            rest = words[1:]
            while rest and rest[0].startswith("-"):
                rest = rest[2 if _has_value(program, rest) else 1 :]
            words = rest[_WRAPPERS[program] :]
        else:
            break
    return words


def _has_value(program: str, words: Sequence[str]) -> bool:
    """Return whether an option is followed by a value: a number, or for `sudo` a user."""
    is_number = len(words) > 1 and re.fullmatch(r"-?\d+", words[1]) is not None
    return is_number if program != "sudo" else words[0] in {"-u", "-g"}


def _bare(path: str) -> str:
    return _SUFFIX.sub("", PurePosixPath(path).name)


def _slug(text: str) -> str:
    return re.sub(r"[._-]+", "-", job_name(text)).strip("-")[:_MAX_NAME_LENGTH].rstrip("-")
