"""The page of the service: six views that call the JSON routes with the visitor's key."""
