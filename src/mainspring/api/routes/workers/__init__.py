"""Routes of workers: status, identities, and claims over HTTP."""
