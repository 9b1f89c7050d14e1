"""The webhook process: answers AdmissionReviews from its caches and writes nothing.

`server` serves HTTPS over `connections`, and `review` decodes and encodes AdmissionReviews.  The handlers are `pods`,
`claims`, `gates` and `rules`; `tls` keeps the certificate fresh.
"""
