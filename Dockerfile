# Builds the program and nothing else: docker build -t cvmstore . A container is no confidential VM; see docs/THREATS.md.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o /cvmstore .

FROM scratch
COPY --from=build /cvmstore /cvmstore
USER 65532:65532
VOLUME /data
EXPOSE 6379
ENTRYPOINT ["/cvmstore"]
CMD ["serve", "--dir", "/data", "--config", "/data/cvmstore.toml"]
