"""The webhook process: answers AdmissionReviews from its caches and writes nothing.

`server` speaks HTTP, `review` the admission API, `pods` and `rules` answer; `tls` keeps the certificate fresh.
"""
