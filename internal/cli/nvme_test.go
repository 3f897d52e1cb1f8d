package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cvmstore/nvme/vfio"
)

func TestDeviceSetting(t *testing.T) {
	o := defaultOptions()
	if err := assign(&o, "test", map[string]string{"device": "vfio:01:00.0/2", "nvme-queues": "3"}); err != nil {
		t.Fatal(err)
	}
	if o.volumePath() != "vfio:0000:01:00.0/2" || o.nvme.parsed.Namespace != 2 || o.nvme.queues != 3 || o.nvme.depth != 512 {
		t.Errorf("%q, %+v", o.volumePath(), o.nvme)
	}
	for _, wrong := range []map[string]string{{"device": "/dev/nvme0n1"}, {"device": "vfio:nvme0"}, {"nvme-depth": "0"}, {"vfio-no-iommu": "maybe"}} {
		if assign(&o, "test", wrong) == nil {
			t.Errorf("%v was accepted", wrong)
		}
	}
}

// A file and a device cannot both be the volume, and a device that is not there is an error before anything is made.
func TestServeOnADeviceThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var out, errOut bytes.Buffer
	args := []string{"serve", "--dir", dir, "--port", "0", "--device", "vfio:ffff:ff:1f.7"}
	if code := Main(append(args, "--volume", "x"), &out, &errOut); code != ExitUsage || !strings.Contains(errOut.String(), "say one of them") {
		t.Errorf("code %d: %s", code, &errOut)
	}
	errOut.Reset()
	if code := Main(args, &out, &errOut); code == ExitOK || !strings.Contains(errOut.String(), "ffff:ff:1f.7") {
		t.Errorf("code %d: %s", code, &errOut)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a store was made for a volume that is not there")
	}
}

func TestNVMeCommands(t *testing.T) {
	thisHost = vfio.Host{Root: t.TempDir()}
	defer func() { thisHost = vfio.Host{Root: "/"} }()
	device := filepath.Join(thisHost.Root, "sys/bus/pci/devices/0000:05:00.0")
	for name, text := range map[string]string{
		device + "/class": "0x010802\n", device + "/driver_override": "", device + "/nvme/nvme3/nvme3n1/size": "",
		thisHost.Root + "/sys/class/block/nvme3n1/nvme3n1p1/partition": "1",
		thisHost.Root + "/sys/bus/pci/drivers/vfio-pci/bind":           "", thisHost.Root + "/sys/bus/pci/drivers_probe": "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (int, string) {
		var out, errOut bytes.Buffer
		code := Main(append([]string{"nvme"}, args...), &out, &errOut)
		return code, out.String() + errOut.String()
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"list"}, ExitOK, "nvme3n1: partition nvme3n1p1"},
		{[]string{"bind", "05:00.0"}, ExitError, "--over nvme3n1"},
		{[]string{"bind", "05:00.0", "--over", "nvme3n1"}, ExitOK, "bound to vfio-pci"},
		{[]string{"unbind", "0000:05:00.0"}, ExitOK, "given back"},
		{[]string{"bind", "06:00.0"}, ExitError, "no NVMe controller at 0000:06:00.0"},
		{[]string{"bind", "sda"}, ExitUsage, "no PCI address"},
	} {
		if code, text := run(c.args...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("nvme %v: code %d, %q", c.args, code, text)
		}
	}
}
