"""Read a prompt about a bug and print JSON. A stub for a language model, which knows a few words."""

import json
import sys

SEVERITIES = {"lost": "critical", "crash": "high", "slow": "medium", "minute": "medium"}
CATEGORIES = {"login": "access", "typo": "wording", "button": "interface", "slow": "speed", "minute": "speed"}

bug = sys.stdin.read().lower()
answer = {
    "severity": next((severity for word, severity in SEVERITIES.items() if word in bug), "low"),
    "category": next((category for word, category in CATEGORIES.items() if word in bug), "other"),
}
print(json.dumps(answer))
