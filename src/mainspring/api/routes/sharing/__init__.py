"""Routes of resource sharing: pools, quotas, groups, freezes, grants, tenants."""
