"""Routes of the rules of sharing: pools, quotas, groups, freezes, grants, tenants."""
