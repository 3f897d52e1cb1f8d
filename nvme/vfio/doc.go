// Package vfio reaches an NVMe controller of this machine through Linux' VFIO: its registers (nvme.Bar), memory that it can
// read and write (nvme.DMA), and the PCI function around it. In come an address and options, out goes a Function for
// nvme.Open. It knows nothing of NVMe itself.
//
// Three ways lead to the device, tried in this order: the character device with iommufd (Linux 6.6), a VFIO group with an
// IOMMU of type 1, and, if Options.NoIOMMU asks for it, a group without an IOMMU, where the device is given physical addresses. All
// are behind one interface (backend). System calls and unsafe code stand in the files that are named after them. Other systems
// than Linux get a stub.
package vfio
