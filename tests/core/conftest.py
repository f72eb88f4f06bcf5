"""Properties are tried on as many examples as ever, and a busy machine may take its time over one."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
