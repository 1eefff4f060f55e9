#!/usr/bin/env bash
# Makes the virtual environment from requirements.lock, or (with --lock) the lock from pyproject.toml.
#
# Needs nothing but a Python of at least 3.11: where no uv is installed, one is put into .tools/. The
# inner loops are compiled where there is a C compiler and Python's headers.
set -euo pipefail
cd "$(dirname "$0")/.."
UV_VERSION=0.13.9

find_python() {
    local name
    for name in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$name" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    echo "spanjoin needs Python 3.11 or newer; install it or set PYTHON to one" >&2
    exit 1
}

find_uv() {
    if command -v uv >/dev/null 2>&1 && uv --version >/dev/null 2>&1; then
        command -v uv
        return
    fi
    local tools=".tools/uv-$UV_VERSION"
    if [ ! -x "$tools/bin/uv" ]; then
        rm -rf "$tools"
        "$python" -m venv "$tools" >&2 || {
            echo "$python has no working venv module; install it (Debian: python3-venv) or uv" >&2
            exit 1
        }
        "$tools/bin/pip" install --quiet --disable-pip-version-check "uv==$UV_VERSION" >&2
    fi
    echo "$tools/bin/uv"
}

# uv reads its own settings only; what pip was told on this machine holds here too.
heed_pip_settings() {
    local url
    url=${PIP_INDEX_URL:-$("$python" -m pip config get global.index-url 2>/dev/null || true)}
    [ -z "$url" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$url}"
    [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
    export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-${PIP_DEFAULT_TIMEOUT:-120}}"
    export UV_PYTHON_DOWNLOADS=never
}

lock() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
        --generate-hashes --no-annotate --custom-compile-command "make lock" \
        --output-file requirements.lock pyproject.toml
}

install() {
    local venv=$1
    if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        rm -rf "$venv"
        "$uv" venv --quiet --python "$python" "$venv"
    fi
    export VIRTUAL_ENV=$PWD/$venv
    echo "installing the locked packages into $venv ..."
    "$uv" pip sync --quiet --compile-bytecode --require-hashes \
        --build-constraints requirements.lock requirements.lock
    "$uv" pip install --quiet --no-deps --no-build-isolation --reinstall-package spanjoin --editable .
    "$venv/bin/python" -c 'import sys; from native import loops; sys.exit(loops is None)' ||
        echo "no C compiler, or no headers of Python: the inner loops run in Python, which is slower"
}

python=$(find_python)
uv=$(find_uv)
heed_pip_settings
if [ "${1:-}" = --lock ]; then lock; else install "${1:-.venv}"; fi
