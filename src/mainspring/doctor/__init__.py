"""Is everything well? Questions about an installation, and what is found: `mainspring doctor`.

    gather.py    asks a server, and never fails: what can't be had is a fault among the facts
    local_machine.py    looks at this machine, if no server answers
    facts.py     what was found out by both
    ask_*.py     from facts to answers, purely: each a part of a runbook, as questions
    findings.py  an answer, and all of them
    questions.py which questions there are, in which order

To add a question: a function in one of `ask_*.py`, in the order in which somebody would ask, a situation that has it
in tests/checkup, and its line in docs/guides/troubleshoot.md.
"""
