"""Pure views and values over Kubernetes API objects.  Imports nothing but the standard library."""
