"""Control planes: which one a test runs on, planes with other components, and what is created on them."""
