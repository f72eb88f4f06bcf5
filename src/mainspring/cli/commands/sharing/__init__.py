"""Commands on pools, quotas, groups, policies, freezes and tenants."""
