# docker build -t tollbar:0.1.0 .
#
# Every package is installed in the version and with the hash that image/*.txt name (scripts/generate_lock.py).  For a
# base that cannot change either, name it by its digest: --build-arg PYTHON=python:3.11-slim@sha256:...
ARG PYTHON=python:3.11-slim

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY image image
RUN python -m venv /build \
 && /build/bin/pip install --require-hashes --only-binary :all: -r image/build-requirements.txt
RUN python -m venv --without-pip /venv \
 && /build/bin/pip --python /venv install --no-compile --require-hashes --only-binary :all: -r image/requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY tollbar tollbar
COPY controllers controllers
COPY webhooks webhooks
# The package holds what the demonstration plays through links to it.
COPY manifests/examples manifests/examples
RUN /build/bin/pip wheel --no-index --no-build-isolation --no-deps --wheel-dir /dist . \
 && /build/bin/pip --python /venv install --no-compile --no-index --no-deps /dist/*.whl \
 && /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /venv/lib

FROM ${PYTHON}
# HOME: the client library asks for it when it is loaded, and the user below has no entry in /etc/passwd.
ENV PATH=/venv/bin:$PATH HOME=/ PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /venv /venv
# The same numbers as in manifests/base; the file system may be read-only.
USER 65532:65532
ENTRYPOINT ["tollbar"]
