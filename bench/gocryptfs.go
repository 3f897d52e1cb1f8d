package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// mountGocryptfs mounts an encrypted directory of gocryptfs below dir and returns where, and how to unmount it.
func mountGocryptfs(ctx context.Context, dir string) (mounted string, unmount func() error, err error) {
	program, err := lookPath("gocryptfs", "gocryptfs")
	if err != nil {
		return "", nil, err
	}
	if _, err := lookPath("fusermount", "fuse"); err != nil {
		return "", nil, err
	}
	sealed, mounted := filepath.Join(dir, "gocryptfs-sealed"), filepath.Join(dir, "gocryptfs")
	for _, d := range []string{sealed, mounted} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", nil, err
		}
	}
	const password = "echo nothing-that-matters" // gocryptfs asks a program for it
	for _, args := range [][]string{
		{"-q", "-nosyslog", "-scryptn", "10", "-init", "-extpass", password, sealed},
		{"-q", "-nosyslog", "-extpass", password, sealed, mounted},
	} {
		// The second one goes on in the background and would keep a pipe open.
		if err := exec.CommandContext(ctx, program, args...).Run(); err != nil {
			return "", nil, fmt.Errorf("gocryptfs: %w", err)
		}
	}
	return mounted, func() error { return exec.Command("fusermount", "-u", mounted).Run() }, nil
}
