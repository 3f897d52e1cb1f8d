package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvmstore/resp"
	"cvmstore/seal"
)

// setting is one line of the configuration: a flag, and a key of the TOML file, of the same name. Values have redis.conf's
// syntax.
type setting struct {
	name   string
	kind   resp.ParamKind
	def    string
	values []string // of an enumeration
	help   string
	secret bool
	set    func(*options, string) error
}

// settings returns all of them, in the order in which they are shown: the volume's, then the front end's from resp's table.
func settings() []setting {
	all := ownSettings()
	for _, p := range resp.Params() {
		s := setting{
			name: p.Name, kind: p.Kind, def: p.Default, values: p.Values, help: p.Help, secret: p.Secret,
			set: func(o *options, v string) error { return o.server.Set(p.Name, v) },
		}
		if p.Name == "dir" {
			s.def = dirDefault
			s.help = "Directory of the volume, the counter and the key file; made with mode 0700 if it is missing."
		}
		all = append(all, s)
	}
	return all
}

func ownSettings() []setting {
	return append(storeSettings(), nvmeSettings()...)
}

func storeSettings() []setting {
	return []setting{
		text("volume", func(o *options) *string { return &o.volume },
			"File or block device of the volume; empty: volume.cvm in dir."),
		text("key-file", func(o *options) *string { return &o.keyFile },
			"File with the store's master secret, mode 0600; empty: key in dir. Better kept on another disk."),
		text("counter-file", func(o *options) *string { return &o.counterFile },
			"File of the embedded counter; empty: counter in dir. It protects against nothing that can write it."),
		text("counter", func(o *options) *string { return &o.counterURL },
			"Trusted counter service, https://HOST:PORT; several members with commas; empty: the embedded counter."),
		text("counter-cert", func(o *options) *string { return &o.counterCert },
			"Key and certificate that show the service who this server is; empty: identity.pem in dir, made if it is missing."),
		text("counter-pin", func(o *options) *string { return &o.counterPin },
			"What is known of the service: its file service.pin."),
		text("provision", func(o *options) *string { return &o.provision },
			"Trusted party that releases the keys after attestation, https://HOST:PORT; empty: the key file."),
		text("provision-pin", func(o *options) *string { return &o.provisionPin },
			"Identity of the trusted party, 64 hexadecimal digits, as cvmstore provision serve prints it."),
		text("store", func(o *options) *string { return &o.store },
			"The store whose keys are asked for, 32 hexadecimal digits."),
		text("attester", func(o *options) *string { return &o.attester },
			"What attests: empty for this VM's processor; simulated:DIR for a platform that proves nothing."),
		text("attest-certs", func(o *options) *string { return &o.attestCerts },
			"File with the certificate table of the processor's key, where the host gives none with a report."),
		memory("volume-size", "0", 0, func(o *options) *int64 { return &o.volumeSize },
			"Up to which size a volume in a file grows; 0: as far as the file system goes."),
		memory("segment-size", "16mb", 64<<10, func(o *options) *int64 { return &o.segmentSize },
			"Size of a journal segment. Fixed when the volume is made."),
		memory("cache-size", "256mb", 0, func(o *options) *int64 { return &o.cacheSize },
			"Memory for values that were read or written lately; 0: none."),
		memory("blob-size", "64kb", 0, func(o *options) *int64 { return &o.blobSize },
			"From which size on a value lies in extents of its own, is sealed while it arrives and sent while it is read; 0: never."),
		enum("cipher", seal.Suites(), func(o *options) *string { return &o.cipher },
			"Cipher of a new store. Fixed when the key file is made."),
		{
			name: "epoch-length", kind: resp.KindInt, def: "10",
			help: "Milliseconds between two commits to the counter while no reply waits for one, 1 to 281; 0: back to back.",
			set: func(o *options, v string) error {
				n, err := strconv.Atoi(v)
				if err != nil || n < 0 || n > 281 {
					return fmt.Errorf("argument must be between 0 and 281 inclusive")
				}
				o.epochLength = time.Duration(n) * time.Millisecond
				if n == 0 {
					o.epochLength = -1
				}
				return nil
			},
		},
		count("epoch-ops", "65536", 1, 1<<24, func(o *options) *int { return &o.epochOps },
			"Mutations after which an epoch ends."),
		memory("epoch-bytes", "64mb", 4096, func(o *options) *int64 { return &o.epochBytes },
			"Bytes of records after which an epoch ends."),
		enum("epoch-mode", []string{"non-blocking", "blocking"}, func(o *options) *string { return &o.epochMode },
			"blocking: mutations are held at the end of each epoch until its commit, so that one epoch at most is uncommitted"),
		count("epochs-uncommitted", "2", 2, 16, func(o *options) *int { return &o.epochsUncommitted },
			"How many epochs may be uncommitted in non-blocking mode: what an adversarial restart can take from level durable."),
		enum("commit-order", []string{"ordered", "parallel"}, func(o *options) *string { return &o.commitOrder },
			"parallel: a commit goes together with its frames; a restart may then be one commit behind, fresh replies included"),
		count("fresh-lease", "10000", 0, 600_000, func(o *options) *int { return &o.freshLease },
			"Milliseconds after which nothing is called fresh any more unless the counter service has confirmed it; 0: never. Off with the embedded counter."),
		text("format-over", func(o *options) *string { return &o.formatOver },
			"Make the new volume over data that is not cvmstore's: must be the same path as the volume's."),
		{
			name: "insecure-plaintext", kind: resp.KindBool, def: "no",
			help: "Allow connections without TLS on addresses other than loopback: the host reads and changes what they carry.",
			set: func(o *options, v string) error {
				if v != "yes" && v != "no" {
					return fmt.Errorf("argument must be 'yes' or 'no'")
				}
				o.insecurePort = v == "yes"
				return nil
			},
		},
		text("http", func(o *options) *string { return &o.httpAddr },
			"Address of metrics and the status page, HOST:PORT; empty: none. With TLS if there is a TLS port; without, on loopback only."),
		text("http-token-file", func(o *options) *string { return &o.httpToken },
			"File with a token that may see them (Authorization: Bearer), beside the users who may run INFO; empty: none."),
		{
			name: "loglevel", kind: resp.KindEnum, def: "notice", values: logLevels(),
			help: "How much is logged.",
			set:  oneOf(logLevels(), func(o *options) *string { return &o.logLevel }),
		},
		text("logfile", func(o *options) *string { return &o.logFile }, "File that the log is appended to; empty: standard error."),
		enum("log-format", []string{"auto", "console", "json"}, func(o *options) *string { return &o.logFormat },
			"auto: console on a terminal, json otherwise."),
	}
}

func text(name string, field func(*options) *string, help string) setting {
	return setting{
		name: name, kind: resp.KindString, help: help,
		set: func(o *options, v string) error { *field(o) = v; return nil },
	}
}

// enum makes a setting with a list of values, the first of which is the default.
func enum(name string, values []string, field func(*options) *string, help string) setting {
	return setting{name: name, kind: resp.KindEnum, def: values[0], values: values, help: help, set: oneOf(values, field)}
}

func oneOf(values []string, field func(*options) *string) func(*options, string) error {
	return func(o *options, v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("argument must be one of the following: %s", strings.Join(values, ", "))
		}
		*field(o) = v
		return nil
	}
}

func count(name, def string, least, most int, field func(*options) *int, help string) setting {
	return setting{
		name: name, kind: resp.KindInt, def: def, help: help,
		set: func(o *options, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < least || n > most {
				return fmt.Errorf("argument must be between %d and %d inclusive", least, most)
			}
			*field(o) = n
			return nil
		},
	}
}

func memory(name, def string, least int64, field func(*options) *int64, help string) setting {
	return setting{
		name: name, kind: resp.KindMemory, def: def, help: help,
		set: func(o *options, v string) error {
			n, err := resp.ParseMemory(v)
			if err != nil {
				return err
			}
			if n != 0 && n < least {
				return fmt.Errorf("argument must be at least %d", least)
			}
			*field(o) = n
			return nil
		},
	}
}

// assign sets values, by name, and returns the first error. source says where they come from, for people.
func assign(o *options, source string, values map[string]string) error {
	all := settings()
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			return usageErrorf("%s: unknown key %q%s", source, name, didYouMean("", name, names))
		}
	}
	_, byOurName := values["durability"]
	_, byRedisName := values["appendfsync"]
	if byOurName && byRedisName {
		return usageErrorf("%s: durability and appendfsync are two names of one thing: use one of them", source)
	}
	for _, s := range all {
		v, given := values[s.name]
		if !given {
			continue
		}
		if err := s.set(o, v); err != nil {
			shown := strconv.Quote(v)
			if s.secret {
				shown = "the value"
			}
			return usageErrorf("%s: %s: %s: %w", source, s.name, shown, err)
		}
	}
	return nil
}
