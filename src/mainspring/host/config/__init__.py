"""Configuration that changes at run time: settings, sharing rules, and cluster-wide limits."""
