# The command turnwise, for an app that is mounted at /app or copied there: docker build -t turnwise .
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/turnwise \
    && PIP_CONSTRAINT=constraints.txt /opt/turnwise/bin/pip install --no-cache-dir '.[serve,postgres,s3,llm,mcp,a2a,otel,restate]'

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --create-home turnwise && install --directory --owner turnwise /app /data
COPY --from=build /opt/turnwise /opt/turnwise
ENV PATH=/opt/turnwise/bin:$PATH
USER turnwise
WORKDIR /app
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/api/v1/health', timeout=4)"]
# As lists, so that SIGTERM arrives at the command itself.
ENTRYPOINT ["turnwise"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
