# syntax=docker/dockerfile:1
# Two stages: the first has what builds the environment, the second only what runs.

FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never
RUN pip install uv==0.13.9
WORKDIR /src
RUN uv venv /opt/spanjoin
ENV VIRTUAL_ENV=/opt/spanjoin
# What is installed comes from pyproject.toml, which version of it from the lock: what the lock has
# for tests stays out. These change rarely: a layer of their own.
COPY pyproject.toml requirements.lock README.md ./
RUN uv pip install --require-hashes --constraints requirements.lock \
    --build-constraints requirements.lock --requirements pyproject.toml --extra demo
COPY app app
COPY rebalance rebalance
COPY schemas schemas
COPY state state
RUN uv pip install --no-deps --build-constraints requirements.lock .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/spanjoin spanjoin
COPY --from=build /opt/spanjoin /opt/spanjoin
ENV PATH=/opt/spanjoin/bin:$PATH PYTHONUNBUFFERED=1
USER spanjoin
WORKDIR /var/lib/spanjoin
# State lives here; without a volume a new container replays it from the changelog.
VOLUME /var/lib/spanjoin
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["spanjoin"]
CMD ["--help"]
