"""Routes of workers: their state, their identities, and claims over plain HTTP."""
