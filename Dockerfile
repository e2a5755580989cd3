# The image of a member. Plain enough for every builder:
#   docker build --target relay --tag relay .            what a member needs
#   docker build --target analytics --tag relay-analytics .    that, and the audit with Spark
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/relay
COPY requirements.lock requirements-build.lock ./
RUN python -m pip --python /opt/relay/bin/python install --no-cache-dir --require-hashes --requirement requirements.lock \
    && python -m pip install --no-cache-dir --require-hashes --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY sitestack sitestack
COPY relay relay
# The wheel is made by this stage's Python and installed into the other one, which so has no tool that builds.
RUN python -m hatchling build -t wheel -d /wheel \
    && python -m pip --python /opt/relay/bin/python install --no-cache-dir --no-deps /wheel/*.whl


# Both images: who runs in it, and where it may write.
FROM python:3.11-slim AS base
# The user owns nothing but the places of keys, the journal, an audit, keys that are made, and a load generator's pipes; everything else may be
# read-only. A volume takes the owner over from the place at which it is first mounted. The run directory is open and sticky because a tmpfs in its place takes the mode over, but not the owner.
RUN groupadd --gid 10001 relay \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin relay \
    && install --directory --mode=1777 /run/relay \
    && install --directory --owner=10001 --group=10001 --mode=0700 \
        /etc/relay/keys /etc/relay/http /var/lib/relay /var/lib/relay/journal /var/lib/relay/audit /var/lib/relay/keys /var/lib/relay/load
ENV PATH=/opt/relay/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RELAY_RUN_DIRECTORY=/run/relay
ARG VERSION=0.2.0
ARG REVISION=
LABEL org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
ENTRYPOINT ["relay"]


FROM base AS relay
LABEL org.opencontainers.image.title="relay" \
      org.opencontainers.image.description="Group communication inside a data centre, and loss-free relaying between data centres"
COPY --from=build /opt/relay /opt/relay
# Of the site: the multicast group, the member, and the connections by which members watch each other. The bridge, and HTTP.
EXPOSE 7600/udp 7601/udp 7601/tcp 7700/tcp 7800/tcp
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-m", "relay.node.http.probe", "http://127.0.0.1:7800/healthz"]
CMD ["node", "/etc/relay/relay.yaml", "--http", "7800"]


FROM build AS build-analytics
COPY requirements-spark.lock ./
RUN python -m pip --python /opt/relay/bin/python install --no-cache-dir --require-hashes --requirement requirements-spark.lock
COPY lab lab
COPY spark spark
WORKDIR /src/lab
RUN python -m hatchling build -t wheel -d /wheel-spark
WORKDIR /src/spark
RUN python -m hatchling build -t wheel -d /wheel-spark \
    && python -m pip --python /opt/relay/bin/python install --no-cache-dir --no-deps /wheel-spark/*.whl
# Of Java the modules that Spark loads: 54 MB, where the packaged runtime has 190. Any version that Spark knows will do.
ENV JAVA_MODULES=java.se,jdk.crypto.ec,jdk.incubator.vector,jdk.management,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs
# The packages of Java want a directory for manuals that slim images do not have.
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends default-jdk-headless \
    && rm -rf /var/lib/apt/lists/* \
    && jlink --no-man-pages --no-header-files --strip-java-debug-attributes --compress=2 --add-modules "$JAVA_MODULES" --output /opt/java


FROM base AS analytics
LABEL org.opencontainers.image.title="relay-analytics" \
      org.opencontainers.image.description="Audits of the journals of Relay with Spark"
COPY --from=build-analytics /opt/java /opt/java
COPY --from=build-analytics /opt/relay /opt/relay
# The driver is all there is: it needs no name in a network.
ENV JAVA_HOME=/opt/java \
    SPARK_LOCAL_IP=127.0.0.1 \
    SPARK_LOCAL_HOSTNAME=localhost
CMD ["audit", "/var/lib/relay/journal"]
