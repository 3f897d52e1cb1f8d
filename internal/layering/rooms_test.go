package layering

// room is one package, or a package and what lies below its path, and which of our rooms it may import.
type room struct {
	path string
	may  []string
	why  string // said when it imports something else
}

// rooms is the house of DESIGN.md section 2, from the ground up. A package belongs to the room with the longest path that is
// its own or its parent's. "..." at the end of an entry of may stands for everything above it in this list.
var rooms = []room{
	{"ioengine/device", nil, "it is a leaf: the contract that devices and their users share"},
	{"ioengine/aegis", nil, "it is a leaf: a cipher that knows nobody"},
	{"ioengine/dma", nil, "it is a leaf: memory that devices share"},
	{"internal/mutant", nil, "it is a leaf: the switch for deliberate bugs"},
	{"epoch", []string{"epoch"}, "it owns the counter's words and imports nothing of ours"},
	{"epoch/epochtest", []string{"epoch"}, "it is a counter for tests"},
	{"seal", []string{"seal", "ioengine/aegis"}, "it hands out plain types, so that nobody below needs to know it"},
	{"ioengine/device/devicetest", []string{"ioengine/device"}, "it tests devices by their contract"},
	{"ioengine/filedev", []string{"ioengine/device", "ioengine/dma"}, "a device knows blocks, no keys and no formats"},
	{"ioengine/memdev", []string{"ioengine/device", "ioengine/dma"}, "a device knows blocks, no keys and no formats"},
	{"ioengine", []string{"ioengine/device", "ioengine/aegis", "internal/mutant"}, "it moves sealed chunks and knows no key names and no object formats"},
	{"nvme", []string{"nvme", "ioengine/device", "ioengine/dma"}, "a device knows blocks, no keys and no formats"},
	{
		"volume",
		[]string{"epoch", "ioengine", "ioengine/device", "ioengine/aegis", "internal/mutant"},
		"it knows records, not what is in them; what it needs from above (keys, stores) it declares as a small interface",
	},
	{"keyspace", []string{"volume", "internal/mutant"}, "it knows keys and their types, and reaches the disk only through volume"},
	{"kvs", []string{"kvs", "keyspace", "volume", "internal/mutant"}, "stores know nothing of RESP, of devices, or of each other"},
	{"streams", []string{"keyspace", "volume", "internal/mutant"}, "stores know nothing of RESP, of devices, or of each other"},
	{"files", []string{"keyspace", "volume", "internal/mutant"}, "stores know nothing of RESP, of devices, or of each other"},
	{
		"resp",
		[]string{"resp", "kvs", "streams", "files", "keyspace", "volume", "epoch", "internal/mutant"},
		"the front end reaches the disk only through the stores and volume",
	},
	{"internal/archive", []string{"internal/archive", "kvs", "streams", "files", "keyspace", "volume", "epoch", "seal"}, "export and import stand above the stores"},
	{"internal/ops", []string{"resp", "kvs", "streams", "files", "keyspace", "volume", "epoch"}, "it shows what the rooms below offer"},
	{"internal/hostile", []string{"nvme", "ioengine/device", "ioengine/memdev"}, "the lying controller stands behind nvme's seams"},
	{"internal/sim", []string{"..."}, "the simulator drives everything below the command line"},
	{"bench", []string{"bench", "..."}, "benchmarks drive everything below the command line"},
	{"internal/cli", []string{"..."}, "the command line wires everything"},
	{"internal/layering", nil, "it holds a test only"},
	{"e2e", nil, "it runs the program from outside"},
	{"", []string{"internal/cli"}, "main wires, runs and stops"},
}

// testOnly rooms are imported by tests and by the rooms that drive tests, never by what runs in production.
var testOnly = map[string]bool{
	"epoch/epochtest": true, "ioengine/device/devicetest": true, "ioengine/memdev": true, "internal/hostile": true, "internal/sim": true,
}

// drivers may import testOnly rooms.
var drivers = map[string]bool{"internal/sim": true, "internal/hostile": true, "bench": true, "ioengine/device/devicetest": true}

// libraries that only some rooms may import.
var libraries = []struct {
	path  string
	rooms []string
	why   string
}{
	{"github.com/tidwall/redcon", []string{"resp", "bench"}, "replies are written in resp"},
	{"github.com/alecthomas/kong", []string{"internal/cli", "bench"}, "flags are read in internal/cli"},
	{"github.com/BurntSushi/toml", []string{"internal/cli", "seal", "bench"}, "configuration files are read in internal/cli, policies in seal/attest"},
	{"go.etcd.io", []string{"epoch"}, "the counter's back ends are epoch's"},
	{"crypto/aes", []string{"volume", "ioengine", "seal", "bench"}, "sealing is done in volume and ioengine"},
	{"net", []string{"resp", "epoch", "seal", "internal/cli", "internal/ops", "internal/archive", "bench", "e2e"}, "sockets belong to resp and to the services"},
}
