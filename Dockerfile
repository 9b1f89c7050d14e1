# docker build -t tollbar:0.1.0 .
FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /venv
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY tollbar tollbar
COPY controllers controllers
COPY webhooks webhooks
# The package holds what the demonstration plays through links to it.
COPY manifests/examples/notebook manifests/examples/notebook
COPY manifests/examples/quickstart manifests/examples/quickstart
RUN /venv/bin/pip install . && /venv/bin/python -m compileall -q /venv/lib

FROM python:3.11-slim
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /venv /venv
# The same numbers as in manifests/base; the file system may be read-only.
USER 65532:65532
ENTRYPOINT ["tollbar"]
