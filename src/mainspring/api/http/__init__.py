"""HTTP itself: routing, request bodies, problems, ETags, paging, OpenAPI. Nothing here knows a resource."""
