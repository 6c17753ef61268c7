# syntax=docker/dockerfile:1
FROM python:3.12-slim AS build
WORKDIR /app
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1
COPY constraints.txt pyproject.toml README.md ./
COPY ml_core ml_core
COPY service service
RUN pip install --no-cache-dir -c constraints.txt '.[cluster]'

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 postfit && install -d -o postfit /data /cache
COPY --from=build /venv /venv
WORKDIR /data
USER postfit
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/cache POSTFIT_DATA=/data POSTFIT_HOST=0.0.0.0 POSTFIT_PORT=8000
# Kernels are compiled here for this processor; on another one they are compiled again, once, into /cache.
RUN python -c "from ml_core.numerics.jit import warm_up; print(warm_up(), 'kernels')"
VOLUME ["/data"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"POSTFIT_PORT\"]}/v1/health/ready', timeout=4)"]
ENTRYPOINT ["python", "-m", "service"]
CMD ["serve"]
