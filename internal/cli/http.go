package cli

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"cvmstore/internal/ops"
	"cvmstore/resp"
)

// tokenMin is the shortest token that is taken.
const tokenMin = 16

// startHTTP starts metrics and the status page, if they are asked for. The function that it returns ends them.
func startHTTP(o *options, log zerolog.Logger, server *resp.Server) (stop func(), err error) {
	if o.httpAddr == "" {
		return func() {}, nil
	}
	token := ""
	if o.httpToken != "" {
		b, err := os.ReadFile(o.httpToken)
		if err != nil {
			return nil, fmt.Errorf("http-token-file: %w", err)
		}
		if token = strings.TrimSpace(string(b)); len(token) < tokenMin {
			return nil, fmt.Errorf("http-token-file: a token has at least %d characters", tokenMin)
		}
	}
	https := server.HTTPS()
	if https == nil && !o.insecurePort && !loopback(o.httpAddr) {
		return nil, fmt.Errorf("http %s: %w: logins and tokens would be seen on the way", o.httpAddr, errExposed)
	}
	s, err := ops.Start(ops.Options{
		Addr: o.httpAddr, Token: token, Source: server, Log: log, TLS: https, CertificateEnd: server.CertificateEnd,
	})
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	log.Info().Stringer("http", s.Addr()).Bool("tls", https != nil).Msg("metrics and status page")
	return s.Close, nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
