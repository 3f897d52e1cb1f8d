//go:build !linux

package command

func infoCPU(*infoText) {}
