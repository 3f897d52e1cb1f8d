// Package service is the trusted counter service of DESIGN.md section 9: it keeps a record a store in a Store (bbolt, etcd),
// by the rules of package epoch, and answers over TLS 1.3 with client certificates in the protocol of epoch/wire.
//
// In come requests from the network, hostile until checked: who asks (the certificate's key must be enrolled), how much (limits
// for each identity and in all), what (wire's decoders). Out go answers, once what they say is durable. It trusts its own
// store: who can put back an older database rolls every store back (docs/OPERATIONS.md says how to prevent that).
//
//   - entry.go is what is kept of a store, as bytes; identity.go who may ask.
//   - rules.go carries requests out; it knows no HTTP. operator.go carries out the operator's.
//   - server.go is the port: TLS, connections, timeouts; handler.go maps paths to rules; limits.go is fairness.
package service
