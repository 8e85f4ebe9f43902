# The controller's image: a virtual environment built in one stage, and nothing but Python and it in the other.
# Both stages must have the same minor version of Python.
#   docker build -t rescheduler:0.1.0 .
#   docker build -t rescheduler:0.1.0 --build-arg EXTRAS=webhook .   for clusters before 1.36, which need the webhook
ARG PYTHON=python:3.13-slim-trixie

FROM ${PYTHON} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
RUN python -m venv /opt/rescheduler
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY manifests ./manifests
COPY rescheduler ./rescheduler
ARG EXTRAS=
RUN /opt/rescheduler/bin/pip install --no-compile --constraint constraints.txt ".${EXTRAS:+[$EXTRAS]}" \
 # The asynchronous twin of the Kubernetes client is never imported: 68 MB.
 && rm -rf /opt/rescheduler/lib/python3*/site-packages/kubernetes/aio \
 && /opt/rescheduler/bin/pip uninstall --yes pip \
 && /opt/rescheduler/bin/python -m compileall -q /opt/rescheduler/lib

FROM ${PYTHON} AS runtime
LABEL org.opencontainers.image.title="rescheduler" \
      org.opencontainers.image.description="Moves running pods to better nodes, and never evicts into the void." \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/rescheduler/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_ARENA_MAX=2
COPY --from=builder /opt/rescheduler /opt/rescheduler
USER 65532:65532
ENTRYPOINT ["rescheduler"]
CMD ["run"]
