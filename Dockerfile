# Two stages: the first has what builds the environment, the second only what runs.

FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never
# For the inner loops; Python's headers are in the image.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN pip install uv==0.13.9
WORKDIR /src
RUN uv venv /opt/spanjoin
ENV VIRTUAL_ENV=/opt/spanjoin
# What is installed comes from pyproject.toml, which version of it from the lock: what the lock has
# for tests stays out. These change rarely: a layer of their own.
COPY pyproject.toml requirements.lock README.md ./
RUN uv pip install --require-hashes --constraints requirements.lock \
    --build-constraints requirements.lock --requirements pyproject.toml --extra demo
COPY hatch_build.py ./
COPY app app
COPY native native
COPY rebalance rebalance
COPY schemas schemas
COPY state state
RUN uv pip install --no-deps --build-constraints requirements.lock . \
    && /opt/spanjoin/bin/python -I -c "from native import loops; assert loops, 'not compiled'"

FROM python:3.13-slim
RUN groupadd --gid 10001 spanjoin \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/spanjoin spanjoin \
    && install --directory --owner=10001 --group=10001 /var/lib/spanjoin
COPY --from=build /opt/spanjoin /opt/spanjoin
ENV PATH=/opt/spanjoin/bin:$PATH PYTHONUNBUFFERED=1
# In figures, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/spanjoin
# State lives here; without a volume a new container replays it from the changelog.
VOLUME /var/lib/spanjoin
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["spanjoin"]
CMD ["--help"]
