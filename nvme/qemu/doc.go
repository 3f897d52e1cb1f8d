// Package qemu tests the NVMe driver against QEMU's controller behind QEMU's IOMMU: make test-vfio (scripts/vfio.sh) builds the
// tests of this package as a static program and runs them in small guests. On the machine itself they are skipped.
package qemu
