"""The webhook process: answers AdmissionReviews from its caches and writes nothing.

`server` serves HTTPS, `review` decodes and encodes AdmissionReviews, `pods`, `claims` and `rules` are the handlers, and
`tls` keeps the certificate fresh.
"""
